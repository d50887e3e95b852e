"""Memory of our own: what init and sync touch in each rank, what is shared, what a peer costs.

Private is what a process has written in mappings of its own; shared is what the memory files of
the job occupy, each counted once. MPI is loaded before, and so are the modules that init loads,
which have a row of their own; pages that MPI writes because init uses it are counted.
"""

import ctypes
import importlib
import os
import re
import sys
from pathlib import Path

import numpy as np
from harness import Goal, Row
from mpi4py import MPI

import acp_mpi as acp

_PRIVATE = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ...(.)")
KIB = 1024
QUEUED = 4096  # operations, by a link; load and store queue none
LOADED = (  # by init, beside what these load themselves
    "job.join",
    "job.mpi_group",
    "job.rendezvous.address",
    "job.rendezvous.secret",
    "job.rendezvous_point",
    "job.runtime",
    "rma.window",
)


def private() -> int:
    """Return the bytes that this process has written in private mappings."""
    total, counted = 0, True
    with open("/proc/self/smaps") as mappings:
        for line in mappings:
            if mapping := _PRIVATE.match(line):
                counted = mapping[1] == "p"
            elif counted and line.startswith("Private_Dirty:"):
                total += int(line.split()[1]) * KIB
    return total


def _page_tables() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmPTE:")[2].split()[0]) * KIB


def _files(comm: MPI.Intracomm) -> int:
    """Return the bytes that all memory files of the ranks occupy. Collective."""
    mine = {}
    for entry in os.scandir("/proc/self/fd"):
        try:
            name, state = os.readlink(entry.path), os.stat(entry.path)
        except OSError:  # the descriptor of the scan itself
            continue
        if name.startswith("/memfd:"):
            mine[state.st_ino] = state.st_blocks * 512
    everything: dict[int, int] = {}
    for files in comm.allgather(mine):
        everything |= files
    return sum(everything.values())


class Growth:
    """What this rank has taken since the object was made."""

    def __init__(self) -> None:
        # what is free must count again when it is written again
        ctypes.CDLL(None).malloc_trim(0)
        for _ in range(3):  # looking takes memory itself, the first time
            self._private, self._tables = private(), _page_tables()

    def private(self) -> int:
        """Return the bytes written in private mappings since then."""
        return private() - self._private

    def tables(self) -> int:
        """Return the bytes of page tables since then."""
        return _page_tables() - self._tables


def _load() -> int:
    """Load the modules that init would load; return the private memory that they take."""
    growth = Growth()
    for name in LOADED:
        importlib.import_module(f"acp_mpi.{name}")
    return growth.private()


def _ours() -> set[str]:
    return {name for name in sys.modules if name.startswith("acp_mpi")}


def _talk(gas: list[int]) -> None:
    word = np.ones(1, np.int64)
    for ga in gas[1:]:
        acp.put(ga, word)
        acp.fetch_add8(ga, 1)
        acp.complete(acp.copy(gas[0], ga, 8))


def _queue(ga: int) -> None:
    for _ in range(QUEUED):
        acp.add8(acp.GA_NULL, ga, 1)
    acp.complete()


def _mpi_window(comm: MPI.Intracomm) -> int:
    """Return the private memory that MPI takes for a window of 64 MiB over existing memory."""
    part = np.empty(64 << 20, np.uint8)
    growth = Growth()
    win = MPI.Win.Create(part, 1, comm=comm)
    win.Lock_all()
    comm.Barrier()
    taken = growth.private()
    win.Unlock_all()
    win.Free()
    return int(comm.allreduce(taken, op=MPI.MAX))


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    comm = MPI.COMM_WORLD
    # MPI has made its connections and duplicated a communicator before
    comm.Dup().Free()
    comm.allgather(bytes(64))
    comm.Barrier()
    modules, loaded = _load(), _ours()
    start = Growth()
    with acp.init(comm):
        acp.sync()
        private, tables = start.private(), start.tables()
        assert not (more := _ours() - loaded), f"init also loads {more}"
        shared = _files(comm) / comm.size
        mine = acp.zeros(1, np.int64)
        mine[0] = 1  # its page is not a peer's
        gas = comm.allgather(acp.query_ga(mine))
        acp.sync()
        files, talked = _files(comm), Growth()
        if comm.rank == 0:
            _talk(gas)
        comm.Barrier()
        caller, files = talked.private(), _files(comm) - files
        peer_tables = talked.tables()
        if comm.rank == 0:
            _queue(gas[-1])
        queued = private + max(talked.private(), 0)
        acp.sync()
    window = _mpi_window(comm)
    most = comm.allreduce(private, op=MPI.MAX)
    by_link = os.environ.get("ACP_PATH") == "link"
    by = f"{comm.size} ranks" + ", by link" * by_link
    peers = comm.size - 1
    rows = [
        Row(f"private memory of the modules that init loads, {by}", "KiB", modules / KIB),
        Row(
            f"private memory touched by init + sync, {by}",
            "KiB",
            most / KIB,
            "for MPI's window of 64 MiB",
            window / KIB,
            Goal(at_most=256),
            note=f"the rank that touched most; rank 0: {private / KIB:.0f} KiB, "
            f"and {tables / KIB:.0f} KiB of page tables",
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
            (caller + files + peer_tables) / KIB / peers,
            goal=Goal(at_most=16),
            note=f"caller {caller / KIB / peers:.1f} KiB, all memory files "
            f"{files / KIB / peers:.1f} KiB, page tables {peer_tables / KIB / peers:.1f} KiB",
        ),
    ]
    if by_link:
        what = f"private memory touched after {QUEUED} queued operations, {by}"
        rows.append(Row(what, "KiB", queued / KIB, goal=Goal(at_most=256)))
    return rows
