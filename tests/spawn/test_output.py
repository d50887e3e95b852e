"""Output of many ranks in one pipe, taken apart again."""

import pytest

from acp_mpi.spawn.macprun.launchers import MARKS, Kind
from acp_mpi.spawn.macprun.output import Output, Stream

HYDRA = b"\x1eacp.0\x1fone\n\x1eacp.0\x1fha\x1eacp.1\x1fother\n\x1eacp.0\x1flf\n\x1eacp.1\x1fend"
PRRTE = b"[1,0]<stdout>: one\n[1,1]<stdout>: other\n[1,0]<stdout>: half\n[1,1]<stdout>: end"
SRUN = b"0: one\n1: other\n0: half\n1: end"


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(
    ("kind", "data"), [(Kind.HYDRA, HYDRA), (Kind.PRRTE, PRRTE), (Kind.SRUN, SRUN)]
)
def test_each_rank_gets_its_lines_whole(kind, data, step):
    stream = Stream("w", None, MARKS[kind])
    lines = []
    for at in range(0, len(data), step):
        lines += stream.feed(data[at : at + step])
    lines += stream.end()
    assert [line for rank, line in lines if rank == 0] == [b"one\n", b"half\n"]
    assert [line for rank, line in lines if rank == 1] == [b"other\n", b"end\n"]


def test_what_a_launcher_says_itself_has_no_rank():
    stream = Stream("w", None, MARKS[Kind.HYDRA])
    assert list(stream.feed(b"mpiexec: no\n\x1eacp.3\x1fyes\n")) == [
        (None, b"mpiexec: no\n"),
        (3, b"yes\n"),
    ]


def test_lines_are_labelled_and_the_last_are_remembered(capfdbinary):
    output = Output(None, lambda: None)
    output.write("w", [(2, b"%d\n" % number) for number in range(20)], errors=False)
    output.write("w", [(None, b"\xff oops\n")], errors=True)
    out, err = capfdbinary.readouterr()
    assert out.startswith(b"[w.2] 0\n[w.2] 1\n")
    assert err == b"[w] \xff oops\n"
    assert output.last_lines("w")[-2:] == [b"[w.2] 19\n", b"[w] \xff oops\n"]
    assert len(output.last_lines("w")) == 10
    assert output.last_lines("silent") == []
