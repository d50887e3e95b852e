"""What a process says of an error that nobody catches."""

import io
import os
import re
import signal
import sys

import launch
import pytest

import acp_mpi as acp


class Pieces(io.StringIO):
    """Shows what is written in one call."""

    def write(self, text):
        return os.write(2, f"[piece]{text}[end]".encode())


def fail_on_one_rank():
    sys.stderr = Pieces()
    acp.init()
    acp.sync()
    if acp.rank() == 1:
        raise ValueError("no more fuel")
    acp.wait_until(acp.query_starter_ga(0), "==", 1)


def test_an_error_says_on_which_rank_it_was_in_one_piece(without_mpi):
    jobs = without_mpi(2, launch.program(fail_on_one_rank))
    assert [job.wait() for job in jobs] == [1, 1]
    (piece,) = re.findall(r"(?s)\[piece\](.*?)\[end\]", jobs[1].output)
    assert piece.startswith("Traceback")
    assert "in fail_on_one_rank" in piece
    where = rf"on rank 1 of 2 \({os.uname().nodename}, pid {jobs[1].pid}\)"
    assert re.search(rf"\nValueError: no more fuel\n{where}\n$", piece), piece
    assert f"on rank 0 of 2 ({os.uname().nodename}, pid {jobs[0].pid})" in jobs[0].output


def fail_under_a_hook_that_ends_all():
    def hook(*what):
        sys.__excepthook__(*what)
        os._exit(7)

    sys.excepthook = hook
    acp.init()
    raise ValueError("no more fuel")


def test_a_hook_of_the_program_may_end_it(without_mpi):
    for job in without_mpi(2, launch.program(fail_under_a_hook_that_ends_all)):
        assert job.wait() == 7
        assert re.search(r"ValueError: no more fuel\non rank \d of 2", job.output), job.output


WAITS = {
    "recv": lambda: acp.recv(source=0, tag=5),
    "sync": acp.sync,
    "allreduce": lambda: acp.allreduce(1),
    "lookup": lambda: acp.lookup("nobody"),
    "wait_until": lambda: acp.wait_until(acp.query_starter_ga(0), "==", 1),
}


def wait_in_vain(name):
    acp.init()
    if acp.rank() == 1:
        signal.pause()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    WAITS[name]()  # here


def refuse_a_rank():
    acp.init()
    acp.malloc(8, rank=99)  # here


def test_an_error_of_the_library_ends_the_traceback_in_the_program(without_mpi):
    for job in without_mpi(1, launch.program(refuse_a_rank)):
        assert job.wait() == 1
        assert re.search(r"# here\n[ ~^]*\n?acp_mpi.errors.RankError: malloc", job.output), (
            job.output
        )


def begin_with_a_communicator():
    os.environ["ACP_MPI"] = "0"
    acp.init("a communicator")


def test_an_error_of_init_shows_nothing_of_what_is_inside(without_mpi):
    for job in without_mpi(1, launch.program(begin_with_a_communicator)):
        assert job.wait() == 1
        assert "give the group --mpi" in job.output
        assert "in mpi_group" not in job.output


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_in_a_wait_ends_the_traceback_in_the_program(without_mpi, name):
    first, second = without_mpi(2, launch.program(wait_in_vain, name))
    assert first.wait() == 130, first.output
    second.kill()
    lines = re.findall(r'File ".*', first.output)
    assert "test_uncaught.py" in lines[-1], first.output
    assert "KeyboardInterrupt\non rank 0 of 2" in first.output
    assert "acp_mpi" not in lines[-1]
