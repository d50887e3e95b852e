"""Programs that end by an error on a communicator with those that they have spawned."""

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}


def abort(MPI, children):
    children.Abort(7)


def fail_where_errors_are_fatal(MPI, children):
    children.Set_errhandler(MPI.ERRORS_ARE_FATAL)
    children.send("to nobody", 2)


def fail_where_mpi4py_was_told_so(MPI, children):
    children.send("to nobody", 2)


def call_a_handler_that_raises(MPI, children):
    def handle(comm, code):
        raise ValueError(MPI.Get_error_string(code))

    children.Set_errhandler(MPI.Comm.Create_errhandler(handle))
    children.send("to nobody", 2)


def end_with_children(how, errors):
    import mpi4py

    mpi4py.rc.errors = errors
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        parent.send("here", 0)
        parent.recv(source=0)
        return
    command, *arguments = launch.program(end_with_children, how, errors)
    children = MPI.COMM_SELF.Spawn(command, arguments, 2)
    assert [children.recv(source=child) for child in range(2)] == ["here"] * 2
    globals()[how](MPI, children)
    print("after the end")


@pytest.mark.parametrize(
    ("how", "errors", "said"),
    [
        (abort, "exception", ""),
        (fail_where_errors_are_fatal, "exception", "rank 0 of the job: a fatal error: "),
        (fail_where_mpi4py_was_told_so, "fatal", "rank 0 of the job: a fatal error: "),
        (call_a_handler_that_raises, "exception", "ValueError"),
    ],
)
def test_the_job_ends_with_its_children(start, how, errors, said):
    command = launch.program(end_with_children, how.__name__, errors)
    job = start([*launch.mpiexec(1), *command], HOOK)
    assert job.wait() != 0, job.output
    assert "after the end" not in job.output
    assert said in job.output
    launch.until(lambda: not job.processes())
