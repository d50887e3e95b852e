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
print("taken", heap() - before, *sorted(sys.modules), flush=True)
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
    print("taken", heap() - before, *sorted(sys.modules), flush=True)
"""
GOAL = 300_000
MARGIN = 20_000  # between jobs of different sizes


def taken(output: str) -> list[tuple[int, str]]:
    """Return for each process the bytes that it took, and the modules that it had loaded."""
    lines = [line.split(maxsplit=2)[1:] for line in output.splitlines() if line.startswith("taken")]
    return sorted((int(size), modules) for size, modules in lines)


def test_a_process_without_mpi_takes_little_and_the_same_in_jobs_of_any_size(without_mpi):
    sizes = {}
    for ranks in (3, 9):
        jobs = without_mpi(ranks, [sys.executable, "-c", WITHOUT_MPI])
        assert [job.wait() for job in jobs] == [0] * ranks, jobs[0].output
        sizes[ranks], modules = taken("\n".join(job.output for job in jobs))[-1]
        assert sizes[ranks] <= GOAL, f"{sizes[ranks]} bytes; loaded: {modules}"
    assert abs(sizes[9] - sizes[3]) <= MARGIN, sizes


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_process_with_mpi_takes_little_besides_mpi(passes, ranks):
    output = passes([*launch.mpiexec(ranks), sys.executable, "-c", WITH_MPI])
    size, modules = taken(output)[0]  # in others MPI may take more: for what it meets first then
    assert size <= GOAL, f"{size} bytes; loaded: {modules}"
