"""What the library itself takes of the heap, above the same Python without it."""

import sys

import launch
import pytest

# As text: this file, and what it imports, would be in the figures.
METER = """
import ctypes, sys

class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo

def heap():
    info = libc.mallinfo2()
    return info.e + info.h  # mapped, and in use

def tell(size):  # lines that ranks write at the same time stay whole if they are short
    for line in f"taken {size}", *(f"loaded {name}" for name in sorted(sys.modules)):
        sys.stdout.write(line + "\\n")
        sys.stdout.flush()

heap()
"""
WITHOUT_MPI = f"""{METER}
before = heap()
import acp_mpi as acp
acp.init()
for rank in range(acp.procs()):
    acp.copy(acp.query_starter_ga(rank) + 8, acp.query_starter_ga(acp.rank()), 4)
acp.sync()
assert sum(group.size for group in acp.groups()) == acp.procs()
tell(heap() - before)
acp.finalize()
"""
WITH_MPI = f"""{METER}
from mpi4py import MPI
comm = MPI.COMM_WORLD
# What MPI makes at the first surprising message and at the first window is its own.
for size in 8, 5000:
    sent = [comm.Isend(bytearray(size), r) for r in range(comm.size) if r != comm.rank]
    comm.Barrier()
    for _ in sent:
        comm.Recv(bytearray(size))
    MPI.Request.Waitall(sent)
MPI.Win.Allocate(4096, comm=comm).Free()
before = heap()
import acp_mpi as acp
with acp.init():
    acp.sync()
    assert acp.group().window is not None
    tell(heap() - before)
"""
OBJECTS = """
import sys
import acp_mpi as acp
with acp.init():
    before = set(sys.modules)
    acp.publish(f"of {acp.rank()}", acp.rank())
    assert sum(acp.allgather(acp.rank())) == sum(acp.lookup(f"of {rank}") for rank in acp.ranks())
    loaded = set(sys.modules) - before
    heavy = {"pickle", "re", "enum", "typing", "dataclasses", "logging", "numpy"}
    assert not loaded & heavy, loaded
"""
GOAL = 300_000
MARGIN = 20_000  # between jobs of different sizes


def taken(output: str) -> list[int]:
    """Return the bytes that each process took."""
    lines = [line.split() for line in output.splitlines()]
    return sorted(int(line[1]) for line in lines if line[:1] == ["taken"])


def test_a_process_without_mpi_takes_little_and_the_same_in_jobs_of_any_size(without_mpi):
    sizes = {}
    for ranks in (3, 9):
        jobs = without_mpi(ranks, [sys.executable, "-c", WITHOUT_MPI])
        assert [job.wait() for job in jobs] == [0] * ranks, jobs[0].output
        sizes[ranks] = taken("\n".join(job.output for job in jobs))[-1]
        assert sizes[ranks] <= GOAL, jobs[0].output
    assert abs(sizes[9] - sizes[3]) <= MARGIN, sizes


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_process_with_mpi_takes_little_besides_mpi(passes, ranks):
    output = passes([*launch.mpiexec(ranks), sys.executable, "-c", WITH_MPI])
    # In others MPI may take more: for what it meets first then.
    assert taken(output)[0] <= GOAL, output


def test_small_objects_get_around_without_what_pickle_has_in_python(without_mpi):
    jobs = without_mpi(3, [sys.executable, "-c", OBJECTS])
    assert [job.wait() for job in jobs] == [0] * 3, jobs[0].output
