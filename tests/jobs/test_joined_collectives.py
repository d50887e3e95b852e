"""Collectives of a communicator of several groups when members die, or end."""

import os
import signal
import threading
from pathlib import Path

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}
RANKS, VICTIM = 4, 2


def everybody(*command):
    """Return the communicator of so many groups of one, each spawned by all before it."""
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    comm = MPI.COMM_SELF if parent == MPI.COMM_NULL else parent.Merge(True)
    program = launch.program(*command)
    while comm.Get_size() < RANKS:
        comm = comm.Spawn(program[0], program[1:]).Merge(False)
    return comm


def halves(comm):
    """Return what the even ranks and the odd ones have in common."""
    half = comm.Get_rank() % 2
    return comm.Split(half).Create_intercomm(0, comm, 1 - half)


def joined(a, b, datatype):
    import numpy as np

    np.frombuffer(b, "i8")[:] += np.frombuffer(a, "i8")


def call_of(kind, comm):
    """Return a collective that all call again and again."""
    import numpy as np
    from mpi4py import MPI

    rank, size = comm.Get_rank(), comm.Get_size()
    long, out = np.ones(100_000), np.zeros(100_000)
    parts, whole = np.ones(size * 20_000), np.zeros(size * 20_000)
    column = MPI.DOUBLE.Create_vector(100, 1, 2).Commit()
    own = MPI.Op.Create(joined, commute=False)
    one, sum_ = np.ones(1, int), np.zeros(1, int)
    between = halves(comm) if kind.startswith("between") else None
    again = comm.Allreduce_init(long, out) if kind == "Allreduce_init" else None
    gives = MPI.ROOT if rank == 0 else MPI.PROC_NULL if rank % 2 == 0 else 0
    return {
        "barrier": comm.barrier,
        "Bcast": lambda: comm.Bcast(long, 0),
        "Bcast of a column": lambda: comm.Bcast([out, 1, column], 0),
        "Reduce": lambda: comm.Reduce(long, out, root=0),
        "Allreduce by Python": lambda: comm.Allreduce(one, sum_, own),
        "Iallreduce": lambda: comm.Iallreduce(long, out).Wait(),
        "Allreduce_init": lambda: (again.Start(), again.Wait()),
        "Scan": lambda: comm.Scan(one, sum_),
        "Gather": lambda: comm.Gather(parts[:20_000], whole, 0),
        "Scatterv": lambda: comm.Scatterv(parts, whole[:20_000], 0),
        "Allgather": lambda: comm.Allgather(parts[:20_000], whole),
        "Ialltoallv": lambda: comm.Ialltoallv(parts, whole).Wait(),
        "Reduce_scatter": lambda: comm.Reduce_scatter(parts, whole[:20_000]),
        "objects": lambda: comm.alltoall(["x" * 1000] * size),
        "objects folded": lambda: comm.allreduce([rank]),
        "between, allgather": lambda: between.allgather("x" * 1000),
        "between, Allreduce": lambda: between.Allreduce(long, out),
        "between, Bcast": lambda: (between.Bcast(long, gives), between.Barrier()),
        "Split": lambda: comm.Split(rank % 2).Free(),
    }[kind]


KINDS = [
    "barrier", "Bcast", "Bcast of a column", "Reduce", "Allreduce by Python", "Iallreduce",
    "Allreduce_init", "Scan", "Gather", "Scatterv", "Allgather", "Ialltoallv", "Reduce_scatter",
    "objects", "objects folded", "between, allgather", "between, Allreduce", "between, Bcast",
    "Split",
]  # fmt: skip
ROADS = [*launch.ROADS]


def call_until_one_dies(kind, folder):
    import acp_mpi as acp

    comm = everybody(call_until_one_dies, kind, folder)
    go = threading.Event()

    def die():
        go.wait()
        os.kill(os.getpid(), signal.SIGKILL)

    if comm.Get_rank() == VICTIM:
        threading.Thread(target=die, daemon=True).start()
    again, count = call_of(kind, comm), 0
    try:
        while True:
            if count == 7:
                go.set()
            again()
            count += 1
    except acp.PeerLostError as error:
        assert error.rank == VICTIM, error  # noqa: PT017
    Path(folder, f"{comm.Get_rank()} heard").touch()
    launch.until(lambda: all_heard(folder))  # its own end is another death
    os._exit(0)  # Disconnect would raise once more


def all_heard(folder):
    return len(list(Path(folder).glob("* heard"))) == RANKS - 1


@pytest.mark.parametrize(
    ("kind", "road"), [(kind, ROADS[i % len(ROADS)]) for i, kind in enumerate(KINDS)]
)
def test_all_members_hear_of_a_death(start, tmp_path, kind, road):
    program = launch.program(call_until_one_dies, kind, tmp_path)
    job = start(program, HOOK | launch.ROADS[road])
    assert job.wait() == 0, job.output
    launch.until(lambda: all_heard(tmp_path))
    launch.until(lambda: not job.processes())
    assert not (tmp_path / f"{VICTIM} heard").exists()


def end_after_the_last_call(folder):
    """One ends in order while another has not even called it."""
    comm = everybody(end_after_the_last_call, folder)
    rank = comm.Get_rank()
    processes = comm.allgather(os.getpid())
    if rank == VICTIM:
        launch.until(lambda: not os.path.exists(f"/proc/{processes[1]}/stat"))
    found = comm.gather(rank, 0)
    assert found == ([*range(RANKS)] if rank == 0 else None)
    Path(folder, f"{rank} done").touch()


@pytest.mark.parametrize("road", ["any", "link"])
def test_who_ends_in_order_has_done_its_part(start, tmp_path, road):
    program = launch.program(end_after_the_last_call, tmp_path)
    job = start(program, HOOK | launch.ROADS[road])
    assert job.wait() == 0, job.output
    launch.until(lambda: len(list(tmp_path.glob("* done"))) == RANKS)
    launch.until(lambda: not job.processes())


def part_and_vanish(folder):
    comm = everybody(part_and_vanish, folder)
    rank = comm.Get_rank()
    comm.Disconnect()
    Path(folder, f"{rank} parted").touch()
    os._exit(0)


def test_who_has_disconnected_may_vanish(start, tmp_path):
    job = start(launch.program(part_and_vanish, tmp_path), HOOK)
    assert job.wait() == 0, job.output
    launch.until(lambda: len(list(tmp_path.glob("* parted"))) == RANKS)
    launch.until(lambda: not job.processes())


def compute_meanwhile(folder):
    """A collective that was begun is carried out for the others while this rank is in Python."""
    import numpy as np

    comm = everybody(compute_meanwhile, folder)
    rank = comm.Get_rank()
    total = np.zeros(100_000)
    request = comm.Iallreduce(np.full(100_000, float(rank)), total)
    if rank == 1:  # it passes on what others need, and calls nothing until they have it
        launch.until(lambda: len(list(Path(folder).glob("* has it"))) == RANKS - 1)
    request.Wait()
    assert (total == sum(range(RANKS))).all()
    Path(folder, f"{rank} has it").touch()
    comm.Disconnect()


@pytest.mark.parametrize("road", ["any", "owner", "link"])
def test_a_collective_goes_on_while_python_computes(start, tmp_path, road):
    job = start(launch.program(compute_meanwhile, tmp_path), HOOK | launch.ROADS[road])
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())
