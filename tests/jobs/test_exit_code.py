"""After a loss in its MPI group a process ends as its program says, and with its exit hooks.

MPI_Finalize is not called then: without the dead rank it hangs under Open MPI, and asserts under
MPICH.
"""

import atexit
import contextlib
import gc
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import launch
import pytest
from dying import sync_before_the_end_of
from macprunning import macprun

import acp_mpi as acp
from acp_mpi.job import exit

# Every rank leaves its exit status in a file, and the launcher sees a good end.
_KEEP_STATUS = [
    *("sh", "-c"),
    'trap "" USR1; folder=$1; shift; "$@"; echo $? > $folder/status.$$; exit 0',
    "sh",
]


class Tired(SystemExit):
    """A way to end that a program makes its own."""


def raise_(error):
    raise error


# The exit status of each way to end.
ENDS = {
    "by itself": (lambda: None, 0),
    "with a code": (lambda: sys.exit(3), 3),
    "with a code beyond a byte": (lambda: sys.exit(256 + 7), 7),
    "with a huge code": (lambda: sys.exit(2**100), 255),
    "with nothing said": (lambda: sys.exit(), 0),
    "with a text": (lambda: sys.exit("no more fuel"), 1),
    "by its own SystemExit": (lambda: raise_(Tired(4)), 4),
    "with an error": (lambda: raise_(ValueError("no more fuel")), 1),
}
KILLED = 128 + signal.SIGKILL


def end_each_in_its_way(folder, before, *ways):
    """Lose the last rank; every other ends in another way, and leaves a file by each hook."""
    atexit.register(lambda: Path(folder, f"{os.getpid()} first hook").touch())
    acp.init()
    atexit.register(lambda: Path(folder, f"{os.getpid()} last hook").touch())
    rank = acp.rank()
    sync_before_the_end_of(len(ways))
    if rank == len(ways):
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(acp.PeerLostError):
        acp.sync()
    acp.refresh()
    with contextlib.suppress(SystemExit):
        sys.exit(99)  # of no account
    if before == "finalized":
        acp.finalize()
    print(f"the last words of {rank} ", end="")
    ENDS[ways[rank]][0]()


@pytest.mark.parametrize("before", ["finalized", "not finalized"])
def test_after_a_loss_the_exit_code_is_the_program_s(start, tmp_path, before):
    # An error that nobody catches ends the group while the job lasts.
    ways = [way for way in ENDS if before == "finalized" or way != "with an error"]
    program = launch.program(end_each_in_its_way, tmp_path, before, *ways)
    ranks = len(ways) + 1
    job = start([*launch.mpiexec(ranks, survive=True), *_KEEP_STATUS, tmp_path, *program])
    job.wait()
    statuses = [int(file.read_text()) for file in tmp_path.glob("status.*")]
    assert sorted(statuses) == sorted([*(ENDS[way][1] for way in ways), KILLED]), job.output
    for hook in "first", "last":
        assert len(list(tmp_path.glob(f"* {hook} hook"))) == len(ways), job.output
    for rank in range(len(ways)):
        assert f"the last words of {rank} " in job.output


class Stubborn:
    """In a ring of references, so that only the end of Python takes it apart, which hangs."""

    def __init__(self):
        self.ring = self

    def __del__(self, sleep=time.sleep):
        sleep(1000)


def end_in_a_hang(folder):
    acp.init()
    sync_before_the_end_of(1)
    if acp.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(acp.PeerLostError):
        acp.sync()
    acp.refresh()
    exit.PATIENCE = 10.0  # what comes before it may take long on a busy machine
    sys.modules["stubborn"] = Stubborn()
    gc.disable()


def test_an_end_that_hangs_is_cut_short_with_the_stacks(start, tmp_path):
    program = launch.program(end_in_a_hang, tmp_path)
    job = start([*launch.mpiexec(2, survive=True), *_KEEP_STATUS, tmp_path, *program])
    job.wait()
    statuses = [int(file.read_text()) for file in tmp_path.glob("status.*")]
    assert sorted(statuses) == [1, KILLED], job.output
    assert "in __del__" in job.output


def alone_and_out(how):
    import acp_mpi as acp

    acp.init()
    atexit.register(print, "the hook of the program")
    if how == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
    raise RuntimeError(how)


@pytest.mark.parametrize(("how", "status"), [("error", 1), ("interrupted", -signal.SIGINT)])
def test_who_is_alone_ends_as_any_python_does(start, how, status):
    job = start(launch.program(alone_and_out, how))
    assert job.wait() == status, job.output
    assert "the hook of the program" in job.output


def interrupted_among_others():
    import acp_mpi as acp

    acp.init()
    if acp.rank() == 0:
        raise KeyboardInterrupt
    acp.sync()


@pytest.mark.smoke
def test_ctrl_c_on_one_of_several_is_known_by_its_code(without_mpi):
    jobs = without_mpi(2, launch.program(interrupted_among_others))
    assert sorted(job.wait() for job in jobs) == [1, 130], [job.output for job in jobs]


def leave(code, others):
    """End one of three ranks early, and well: with an exit code."""
    acp.init()
    if acp.rank() == 1:
        sys.exit(int(code))
    if others == "wait":
        acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1)


JOBS = {
    "mpiexec": lambda command: [*launch.mpiexec(3), *command],
    "macprun": lambda command: macprun([3, *command]),
    "macprun with MPI": lambda command: macprun([3, "--mpi", *command]),
}


@pytest.mark.parametrize("job", JOBS)
def test_the_exit_code_of_one_rank_is_that_of_the_job(start, job):
    """Also if others wait for it, under `python -m acp_mpi`."""
    for others, options in ("end", []), ("wait", ["-m", "acp_mpi"]):
        python, *program = launch.program(leave, 3, others)
        done = start(JOBS[job]([python, *options, *program]))
        assert done.wait() == 3, done.output
        done.wait_for_all()


def test_what_is_in_a_pipe_is_waited_for_until_it_is_read():
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "wb", buffering=0) as writer:
        assert exit.until_read(write)
        writer.write(b"the reason")
        assert not exit.until_read(write)
        with ThreadPoolExecutor(1) as pool:
            end = pool.submit(exit.until_read, write)
            assert reader.read(10) == b"the reason"
            assert end.result()
    assert exit.until_read(write)  # closed
