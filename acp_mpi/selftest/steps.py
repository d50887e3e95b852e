"""What the jobs of the self-test do: `python -m acp_mpi.selftest.steps JOB`.

The first rank prints a line for each step that has worked: its name, a tab, and what it found.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import chain

import numpy as np

import acp_mpi as acp
from acp_mpi.engine import _engine

_ENOUGH = 60.0  # s, for what the job's other processes do
_SIZES = (8, 4096, 65536, 4 << 20)  # bytes


def _neighbours() -> tuple[int, int]:
    return (acp.rank() - 1) % acp.procs(), (acp.rank() + 1) % acp.procs()


def _must(right: bool, what: str) -> None:
    if not right:
        raise SystemExit(f"wrong result: {what}")


def started(wanted: int) -> str:
    """Check that the processes of the launcher are one job."""
    if acp.procs() != wanted:
        raise SystemExit(
            f"{wanted} processes were started, and this one is in a job of {acp.procs()}"
        )
    return f"{wanted} ranks" + (f", {_library()}" if acp.group().has_mpi else "")


def _library() -> str:
    from mpi4py import MPI

    return " ".join(
        MPI.Get_library_version().replace("\0", "").split("\n")[0].split(",")[0].split()
    )


def memory() -> str:
    """Put, get, and copy as a third rank."""
    left, right = _neighbours()
    array = acp.zeros(4096, np.int64)
    addresses = acp.allgather(acp.query_ga(array))
    acp.put(addresses[right], np.full(4096, acp.rank()))
    acp.sync()
    _must(bool((array == left).all()), "put")
    got = np.empty(4096, np.int64)
    acp.get(addresses[right], got)
    _must(bool((got == acp.rank()).all()), "get")
    acp.sync()
    if acp.rank() == 0:
        acp.complete(acp.copy(addresses[-1], addresses[acp.procs() // 2], array.nbytes))
    acp.sync()
    if acp.rank() == acp.procs() - 1:
        _must(bool((array == (acp.procs() // 2 - 1) % acp.procs()).all()), "copy")
    acp.sync()
    return f"to the next rank by {_engine.road(right)[0]}"


def atomics() -> str:
    """Count on one word by all ranks."""
    word = acp.zeros(1, np.uint64)
    counter = acp.bcast(acp.query_ga(word))
    tickets = acp.allgather([acp.fetch_add8(counter, 1) for _ in range(100)])
    _must(sorted(chain(*tickets)) == list(range(100 * acp.procs())), "fetch_add8")
    return f"{100 * acp.procs()} additions by {acp.procs()} ranks"


def heap() -> str:
    """Use a block of the next rank's heap."""
    _, right = _neighbours()
    block = acp.malloc(1 << 20, right)
    _must(acp.query_rank(block) == right, "malloc")
    sent = np.arange(1 << 17)
    acp.put(block, sent)
    got = np.empty_like(sent)
    acp.get(block, got)
    _must(bool((got == sent).all()), "put to a block of malloc")
    acp.free(block)
    acp.sync()
    return "1 MiB of another rank's heap"


def containers() -> str:
    """Fill a map over all ranks, and a vector on one."""
    table = acp.Map(key="q", value="q") if acp.rank() == 0 else None
    table = acp.bcast(table)
    numbers = np.arange(acp.rank() * 100, acp.rank() * 100 + 100)
    table.update(numbers, numbers * 3)
    acp.sync()
    _must(
        table.size() == 100 * acp.procs() and table[acp.procs() * 100 - 1] == acp.procs() * 300 - 3,
        "Map",
    )
    vector = acp.bcast(
        acp.Vector("d", range(1000), rank=acp.procs() - 1) if acp.rank() == 0 else None
    )
    _must(vector[999] == 999.0, "Vector")
    acp.sync()
    return f"a map of {table.size()} entries, a vector on rank {acp.procs() - 1}"


def messages() -> str:
    """Send messages round the ring."""
    left, right = _neighbours()
    for size in _SIZES:
        acp.send(np.full(size, acp.rank(), np.uint8), right)
        _must(
            bool((acp.recv(np.empty(size, np.uint8), left) == left).all()),
            f"a message of {size} bytes",
        )
    return f"{_SIZES[0]} B to {_SIZES[-1] >> 20} MiB"


def collectives() -> str:
    """Fold arrays, gather objects."""
    total = acp.allreduce(np.arange(1000.0))
    _must(bool((total == np.arange(1000.0) * acp.procs()).all()), "allreduce")
    _must(
        acp.allgather({"rank": acp.rank()})[-1] == {"rank": acp.procs() - 1}, "allgather of objects"
    )
    return "allreduce, allgather"


def spawned() -> str:
    """Spawn a child by `Comm.Spawn`, and have its answer."""
    from acp_mpi.spawn import MPI

    child = MPI.COMM_SELF.Spawn(
        sys.executable, ["-P", "-m", "acp_mpi.selftest.steps", "child", "1"]
    )
    child.send(20, 0)
    _must(child.recv(source=0) == 21, "the answer of a child")
    child.Disconnect()
    return "one child, which has answered"


def child() -> None:
    """Answer a number of the parent with the next one."""
    from acp_mpi.spawn import MPI

    parent = MPI.Comm.Get_parent()
    parent.send(parent.recv(source=0) + 1, 0)
    parent.Disconnect()


def groups() -> str:
    """Use one address space from two groups that were started apart."""
    memory()
    messages()
    sizes = [f"{one.size} {'with' if one.has_mpi else 'without'} MPI" for one in acp.groups()]
    return "one job of " + " and ".join(sizes)


def killed() -> str:
    """Lose a rank, and go on."""
    acp.sync()
    if acp.rank() == acp.procs() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        acp.recv(source=acp.procs() - 1, timeout=_ENOUGH)
    except acp.PeerLostError:
        pass
    else:
        raise SystemExit("wrong result: a message of a dead rank")
    living = acp.refresh()
    _must(acp.allreduce(1) == len(living) == acp.procs() - 1, "allreduce of the living")
    return f"noticed; the other {len(living)} went on"


_STEPS: dict[str, list[Callable[[], str]]] = {
    "job": [memory, atomics, heap, containers, messages, collectives],
    "spawned": [spawned],
    "groups": [groups],
    "killed": [killed],
}


def main(job: str, processes: int) -> None:
    """Run the steps of a job that was started with this number of processes."""
    if job == "child":
        child()
        return
    acp.init()
    lines = [("started", started(processes)), *((step.__name__, step()) for step in _STEPS[job])]
    if acp.rank() == 0:
        for name, found in lines:
            print(name, found, sep="\t", flush=True)
    acp.finalize()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
