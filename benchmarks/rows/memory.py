"""Memory of our own: what init and sync touch in each rank, what is shared, what a peer costs.

Private is every page that a process has written outside the memory files of the job; shared is
what those files occupy. MPI and all modules are loaded before, so their memory is not counted;
pages that MPI touches because init uses it are.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import Goal, Row
from mpi4py import MPI

import acp_mpi as acp

_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ...(.)")
KIB = 1024


def _private() -> int:
    """Return the bytes of pages written in private mappings: no file of anybody's memory."""
    total, counted = 0, True
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if mapping := _MAPPING.match(line):
            counted = mapping[1] == "p"
        elif counted and line.startswith("Private_Dirty:"):
            total += int(line.split()[1]) * KIB
    return total


def _page_tables() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmPTE:"):
            return int(line.split()[1]) * KIB
    return 0


def _own_file() -> int:
    """Return what the memory file of this rank occupies: the one that it holds a descriptor of."""
    total, seen = 0, set()
    for entry in os.scandir("/proc/self/fd"):
        try:
            name, state = os.readlink(entry.path), os.stat(entry.path)
        except OSError:  # the descriptor of the scan itself
            continue
        if name.startswith("/memfd:") and state.st_ino not in seen:
            seen.add(state.st_ino)
            total += state.st_blocks * 512
    return total


@dataclass(frozen=True, slots=True)
class Usage:
    """What one rank takes, in bytes."""

    private: int
    shared: int
    tables: int

    @classmethod
    def now(cls) -> "Usage":
        """Look."""
        # twice: the first look touches memory itself
        return [cls(_private(), _own_file(), _page_tables()) for _ in range(2)][1]

    def __sub__(self, other: "Usage") -> "Usage":
        """Return the growth."""
        return Usage(
            self.private - other.private, self.shared - other.shared, self.tables - other.tables
        )


def _talk(comm: MPI.Intracomm, gas: list[int]) -> tuple[Usage, int]:
    """Let rank 0 talk to everybody: its growth, and that of all memory files."""
    word = np.ones(1, np.int64)
    comm.Barrier()
    before, files = Usage.now(), comm.allreduce(_own_file())
    if comm.rank == 0:
        for ga in gas[1:]:
            acp.put(ga, word)
            acp.fetch_add8(ga, 1)
            acp.complete(acp.copy(gas[0], ga, 8))
    comm.Barrier()
    return Usage.now() - before, comm.allreduce(_own_file()) - files


def _mpi_window(comm: MPI.Intracomm) -> int:
    """Return the private memory that MPI takes for a window of 64 MiB over existing memory."""
    part = np.empty(64 << 20, np.uint8)
    before = Usage.now()
    win = MPI.Win.Create(part, 1, comm=comm)
    win.Lock_all()
    comm.Barrier()
    taken = Usage.now() - before
    win.Unlock_all()
    win.Free()
    return int(comm.allreduce(taken.private, op=MPI.MAX))


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm = MPI.COMM_WORLD
    # MPI has made its connections and duplicated a communicator before
    comm.Dup().Free()
    comm.allgather(bytes(64))
    comm.Barrier()
    before = Usage.now()
    with acp.init(comm):
        acp.sync()
        own = Usage.now() - before
        private = comm.allreduce(own.private, op=MPI.MAX)
        shared = comm.allreduce(own.shared) / comm.size
        tables = comm.allreduce(own.tables, op=MPI.MAX)
        mine = acp.zeros(1, np.int64)
        gas = comm.allgather(acp.query_ga(mine))
        acp.sync()
        grown, files = _talk(comm, gas)
        acp.sync()
    window = _mpi_window(comm)
    by = f"{comm.size} ranks" + (", by link" if os.environ.get("ACP_PATH") == "link" else "")
    peers = comm.size - 1
    return [
        Row(
            f"private memory touched by init + sync, {by}",
            "KiB",
            private / KIB,
            "MPI's window of 64 MiB",
            window / KIB,
            Goal(at_most=256),
            note=f"the rank that touched most; and {tables / KIB:.0f} KiB of page tables",
        ),
        Row(
            f"shared memory a rank after init + sync, {by}",
            "KiB",
            shared / KIB,
            goal=Goal(at_most=64),
        ),
        Row(
            f"memory for each of {peers} peers talked to, {by}",
            "KiB",
            max(grown.private + files, 0) / KIB / peers,
            goal=Goal(at_most=16),
            note=f"caller {grown.private / KIB / peers:.1f} KiB, all memory files "
            f"{files / KIB / peers:.1f} KiB, page tables {grown.tables / KIB / peers:.1f} KiB",
        ),
    ]
