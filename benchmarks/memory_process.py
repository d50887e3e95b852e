"""One process of `spawn_memory.py`: `memory_process.py WAY FOLDER GROUPS SIZE [GROUP]`.

Imports nothing but what it measures with, and what its way needs. Writes to a file in FOLDER what
it took at each stage: "stage seconds heap PSS USS" in bytes, by the clock of the host. Only the
master and the first process of each group look at their memory.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

WINDOW = 64 << 20  # bytes, as ours has by default
WORD = b"\x2a\0\0\0"


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


_libc = ctypes.CDLL(None)
_libc.mallinfo2.restype = _Mallinfo


def memory() -> tuple[int, int, int]:
    """Return what is allocated by malloc, and PSS and USS."""
    info = _libc.mallinfo2()
    with open("/proc/self/smaps_rollup", "rb", buffering=0) as file:
        lines = file.read(4096).splitlines()[1:]
    size = {line[: line.index(b":")]: int(line.split()[1]) << 10 for line in lines}
    own = size[b"Private_Clean"] + size[b"Private_Dirty"]
    return info.uordblks + info.hblkhd, size[b"Pss"], own


class Diary:
    """What this process took at each stage."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.looks_at_memory = True
        memory()  # the first look takes some itself
        self.at("start")

    def at(self, stage: str) -> None:
        """Note that a stage is reached."""
        seconds = time.monotonic()
        took = memory() if self.looks_at_memory else ()
        self._lines.append(" ".join(map(str, (stage, seconds, *took))))

    def write(self, path: str) -> None:
        """Write all stages to a file."""
        with open(path, "w") as file:
            file.write("\n".join(self._lines))


def acp_master(diary: Diary) -> str:
    """Send the word to the first rank of each group, without MPI."""
    import acp_mpi as acp

    diary.at("import")
    acp.init()
    diary.at("joined")
    mine = acp.query_starter_ga(acp.rank())
    acp.put(mine, WORD)
    for group in acp.groups()[1:]:
        acp.copy(acp.query_starter_ga(group.ranks[0]), mine, len(WORD))
    acp.sync()
    diary.at("sent")
    acp.finalize()
    return "master"


def _mpi(diary: Diary, *, and_acp: bool = False) -> ModuleType:
    """Import mpi4py, and our library if it is part of this way, then initialise MPI."""
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    if and_acp:
        import acp_mpi  # noqa: F401
    diary.at("import")
    MPI.Init_thread(MPI.THREAD_MULTIPLE)
    return MPI


def _check(word: bytearray) -> None:
    if word != WORD:
        raise AssertionError(f"{bytes(word)!r} came, not {WORD!r}")


def acp_worker(diary: Diary, group: str) -> str:
    """Get the word, if first of the group, and tell the others of the group by MPI."""
    MPI = _mpi(diary, and_acp=True)
    import acp_mpi as acp

    world, word = MPI.COMM_WORLD, bytearray(len(WORD))
    diary.looks_at_memory = world.rank == 0
    diary.at("MPI")
    acp.init()
    diary.at("joined")
    acp.sync()
    if world.rank == 0:
        acp.get(acp.query_starter_ga(acp.rank()), word)
    world.Bcast(word, root=0)
    _check(word)
    diary.at("sent")
    acp.finalize()
    return f"{group}.{world.rank}"


def plain_master(diary: Diary) -> str:
    """Do nothing, in Python without anything."""
    diary.at("import")
    diary.at("joined")
    diary.at("sent")
    return "master"


def plain_worker(diary: Diary, group: str) -> str:
    """Make an MPI window as large as ours over memory that is there; tell the group the word."""
    import mmap

    MPI = _mpi(diary)
    world, word = MPI.COMM_WORLD, bytearray(WORD)
    diary.looks_at_memory = world.rank == 0
    diary.at("MPI")
    with mmap.mmap(-1, WINDOW) as memory:
        win = MPI.Win.Create(memory, 1, comm=world)
        win.Lock_all()
        diary.at("joined")
        world.Bcast(word, root=0)
        diary.at("sent")
        win.Unlock_all()
        win.Free()
    return f"{group}.{world.rank}"


def spawn_master(diary: Diary, folder: str, groups: int, size: int) -> str:
    """Spawn the groups, then tell them the word one after the other."""
    MPI = _mpi(diary)
    diary.at("MPI")
    arguments = [__file__, "spawn", folder, str(groups), str(size)]
    comms = [
        MPI.COMM_SELF.Spawn(sys.executable, [*arguments, str(group)], maxprocs=size)
        for group in range(groups)
    ]
    diary.at("joined")
    for comm in comms:
        comm.Bcast(WORD, root=MPI.ROOT)
    diary.at("sent")
    if os.environ.get("ACP_SPAWN"):
        import memory_helpers

        memory_helpers.write(os.path.join(folder, "helpers"))
    for comm in comms:
        comm.Disconnect()
    return "master"


def spawn_worker(diary: Diary, group: str) -> str:
    """Be told the word by the process that spawned this group."""
    MPI = _mpi(diary)
    world, word = MPI.COMM_WORLD, bytearray(len(WORD))
    diary.looks_at_memory = world.rank == 0
    diary.at("MPI")
    parent = MPI.Comm.Get_parent()
    diary.at("joined")
    parent.Bcast(word, root=0)
    _check(word)
    diary.at("sent")
    parent.Disconnect()
    return f"{group}.{world.rank}"


def split(diary: Diary, size: int) -> str:
    """Be the master or a worker of one mpirun with a communicator for each group."""
    MPI = _mpi(diary)
    world, word = MPI.COMM_WORLD, bytearray(len(WORD))
    group, rank = divmod(world.rank - 1, size)
    diary.looks_at_memory = world.rank == 0 or rank == 0
    diary.at("MPI")
    comm = world.Split(group + 1)
    diary.at("joined")
    if world.rank == 0:
        for root in range(1, world.size, size):
            world.Send(WORD, root)
    else:
        if rank == 0:
            world.Recv(word, 0)
        comm.Bcast(word, root=0)
        _check(word)
    world.Barrier()
    diary.at("sent")
    comm.Free()
    return f"{group}.{rank}" if world.rank else "master"


def main(way: str, folder: str, groups: str, size: str, group: str | None = None) -> None:
    """Take the part of one process; without a group the master's."""
    diary = Diary()
    if way == "split":
        name = split(diary, int(size))
    elif group is None:
        master = {"ours": acp_master, "plain": plain_master}.get(way)
        name = master(diary) if master else spawn_master(diary, folder, int(groups), int(size))
    else:
        worker = {"ours": acp_worker, "plain": plain_worker, "spawn": spawn_worker}[way]
        name = worker(diary, group)
    diary.at("end")
    diary.write(os.path.join(folder, name))
    if "mpi4py.MPI" in sys.modules:
        sys.modules["mpi4py.MPI"].Finalize()


if __name__ == "__main__":
    main(*sys.argv[1:])
