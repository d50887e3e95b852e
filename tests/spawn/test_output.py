"""Output of many ranks in one pipe, taken apart again."""

import sys

import pytest

from acp_mpi.errors import Error
from acp_mpi.launch.macprun import on_node
from acp_mpi.launch.macprun.launchers import MARKS, Kind
from acp_mpi.launch.macprun.output import Output, Stream

HYDRA = b"\x1eacp.0\x1fone\n\x1eacp.0\x1fha\x1eacp.1\x1fother\n\x1eacp.0\x1flf\n\x1eacp.1\x1fend"
PRRTE = b"[1,0]<stdout>: one\n[1,1]<stdout>: other\n[1,0]<stdout>: half\n[1,1]<stdout>: end"
ORTE = PRRTE.replace(b"t>: ", b"t>:")
SRUN = b"0: one\n1: other\n0: half\n1: end"


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(
    ("kind", "data"),
    [(Kind.HYDRA, HYDRA), (Kind.PRRTE, PRRTE), (Kind.ORTE, ORTE), (Kind.SRUN, SRUN)],
)
def test_each_rank_gets_its_lines_whole(kind, data, step):
    stream = Stream("w", None, MARKS[kind])
    lines = []
    for at in range(0, len(data), step):
        lines += stream.feed(data[at : at + step])
    lines += stream.end()
    assert [line for rank, line in lines if rank == 0] == [b"one\n", b"half\n"]
    assert [line for rank, line in lines if rank == 1] == [b"other\n", b"end\n"]


@pytest.mark.parametrize("kind", [None, Kind.HYDRA, Kind.PRRTE])
def test_a_line_without_end_is_shown_in_pieces(kind):
    """Also where a piece ends in the middle of a mark; and of what follows nothing is mistaken."""
    begin = {None: b"", Kind.HYDRA: b"\x1eacp.3\x1f", Kind.PRRTE: b"[1,3]<stdout>: "}[kind]
    marks, rank = (MARKS[kind], 3) if kind else (None, 0)
    stream = Stream("w", None if kind else 0, marks)
    step, again = 65_521, begin if kind is Kind.HYDRA else b""  # a mark before each piece
    data = begin + b"".join(b"%09d " % number + again for number in range(200_000)) + b"\n"
    pieces = [
        piece for at in range(0, len(data), step) for piece in stream.feed(data[at : at + step])
    ]
    assert len(pieces) > 1
    assert {owner for owner, _ in pieces} == {rank}
    text = b"".join(piece for _, piece in pieces)
    assert text == b"".join(b"%09d " % number for number in range(200_000)) + b"\n"
    assert list(stream.feed(begin + b"next\n")) == [(rank, b"next\n")]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_rank_on_a_node_is_told_of_when_its_output_ends(step):
    """The end of one rank comes in the middle of a line of another, or of its own."""
    data = b"\x1eacp.4\x1fhalf\x1eacp.3=-9\x1f\n\x1eacp.4\x1f a line\n"
    data += b"\x1eacp.4\x1fend\x1eacp.4=3\x1f\n"
    stream, lines = Stream("w", None, on_node.MARKS), []
    for at in range(0, len(data), step):
        lines += stream.feed(data[at : at + step])
    lines += stream.end()
    assert lines == [(4, b"half a line\n"), (4, b"end\n")]
    assert stream.ended == [(3, -9), (4, 3)]


def test_what_a_launcher_says_itself_has_no_rank():
    stream = Stream("w", None, MARKS[Kind.HYDRA])
    assert list(stream.feed(b"mpiexec: no\n\x1eacp.3\x1fyes\n")) == [
        (None, b"mpiexec: no\n"),
        (3, b"yes\n"),
    ]


BARS = b"10%\r20%\rdone\r\nbye\n"


@pytest.mark.parametrize("step", [1, 4, 1000])
@pytest.mark.parametrize("marks", [None, MARKS[Kind.HYDRA]])
def test_a_bar_of_progress_is_seen_as_it_grows(step, marks):
    stream = Stream("w", None if marks else 3, marks)
    data = BARS if marks is None else b"\x1eacp.3\x1f" + BARS.replace(b"bye", b"\x1eacp.3\x1fbye")
    lines = []
    for at in range(0, len(data), step):
        lines += stream.feed(data[at : at + step])
    assert lines == [(3, b"10%\r"), (3, b"20%\r"), (3, b"done\r\n"), (3, b"bye\n")]


def test_output_is_in_its_file_at_once_and_a_full_disk_does_not_end_the_job(tmp_path, capfd):
    output = Output(str(tmp_path), lambda: None, lambda descriptor: None)
    output.write("w", [(0, b"kept\n")], errors=False)
    assert (tmp_path / "w" / "0.out").read_bytes() == b"kept\n"
    (tmp_path / "w" / "1.out").symlink_to("/dev/full")
    output.write("w", [(1, b"lost\n")], errors=False)
    output.write("w", [(0, b"not kept\n")], errors=False)
    output.close()
    said, warned = capfd.readouterr()
    assert said == "[w.0] kept\n[w.1] lost\n[w.0] not kept\n"
    assert warned.count("no more output is kept in") == 1
    assert "No space left" in warned
    assert (tmp_path / "w" / "0.out").read_bytes() == b"kept\n"


@pytest.mark.parametrize(
    ("folder", "reason"),
    [("/dev/null", "File exists"), ("/dev/null/a", "Not a directory"), ("", "No such file")],
)
def test_a_folder_that_cannot_be_made_is_named_before_anything_starts(folder, reason):
    with pytest.raises(Error, match=f"'{folder}' of --output-dir cannot be made: {reason}"):
        Output(folder, lambda: None, lambda descriptor: None)


def test_output_that_a_full_disk_does_not_take_is_missed_once(capfd, monkeypatch):
    output = Output(None, lambda: None, lambda descriptor: None)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        output.write("w", [(0, b"lost\n")], errors=False)
        output.write("w", [(0, b"lost, too\n")], errors=False)
        output.write("w", [(0, b"an error\n")], errors=True)
    assert capfd.readouterr().err == (
        "macprun: no more output is shown: No space left on device\n[w.0] an error\n"
    )


def test_lines_are_labelled_and_the_last_are_remembered(capfdbinary):
    output = Output(None, lambda: None, lambda descriptor: None)
    output.write("w", [(2, b"%d\n" % number) for number in range(20)], errors=False)
    output.write("w", [(None, b"\xff oops\n")], errors=True)
    out, err = capfdbinary.readouterr()
    assert out.startswith(b"[w.2] 0\n[w.2] 1\n")
    assert err == b"[w] \xff oops\n"
    assert output.last_lines("w")[-2:] == [b"[w.2] 19\n", b"[w] \xff oops\n"]
    assert len(output.last_lines("w")) == 10
    assert output.last_lines("silent") == []
