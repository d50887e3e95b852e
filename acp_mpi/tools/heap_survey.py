"""The heaps of a running job, seen from outside: read-only, and without involving its processes."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.rma.heap import HeapStatistics
from acp_mpi.util import processes

_TABLE = "/memfd:acp_mpi.ranks"
_NEXT = "give any process of a running job on this host, or its launcher"


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """The share of one container in a heap; of a `Map` and the like one part, that of this rank."""

    kind: str
    ga: int
    elements: int
    blocks: int
    bytes: int
    """With the heads of its blocks."""


@dataclass(frozen=True, slots=True)
class RankHeap:
    """The heap of one rank at one moment."""

    rank: int
    pid: int
    whole: bool
    """Nothing has changed while it was read."""
    statistics: HeapStatistics
    others: int
    """Bytes that the rank has committed outside the heap: arrays, starter memory."""
    edges: tuple[int, int]
    """Addresses between which all blocks are that there ever were."""
    cells: list[dict[str, int]]
    """The stretch in equal parts: the bytes of each use."""
    containers: list[ContainerUse]
    """The largest first."""

    def uses(self) -> dict[str, int]:
        """Return the bytes of each use between the edges."""
        total: dict[str, int] = {}
        for cell in self.cells:
            for use, size in cell.items():
                total[use] = total.get(use, 0) + size
        return total


@dataclass(frozen=True, slots=True)
class Picture:
    """The heaps of all ranks of a job on this node, by rank."""

    time: float
    """Seconds since the epoch."""
    ranks: list[RankHeap]

    @property
    def used(self) -> int:
        """Bytes in blocks of all heaps."""
        return sum(heap.statistics.used for heap in self.ranks)

    @property
    def committed(self) -> int:
        """Bytes of memory behind all heaps."""
        return sum(heap.statistics.committed for heap in self.ranks)


class JobSurvey:
    """The job that a process, or the nearest of its descendants, belongs to. A context manager.

    The view holds the node's table of ranks, so it finds the others also when that process is gone.
    """

    def __init__(self, pid: int) -> None:
        self._table = _open_table(pid)

    def look(self, cells: int) -> Picture:
        """Return what the heaps are like now; no ranks: the job has ended."""
        ranks = []
        for rank, pid, number, nonce in self._members():
            heap = _look_at(rank, pid, number, nonce, cells)
            if heap is not None:
                ranks.append(heap)
        return Picture(time.time(), sorted(ranks, key=lambda heap: heap.rank))

    def doing(self) -> dict[int, tuple[int, int, int | None, int]]:
        """Return what the ranks here do, by the nonces of their processes.

        A state is the rank, an index of `members.DOING`, the rank that it waits for, and the word
        that it shows to observers.
        """
        found = {}
        for rank, pid, number, nonce in self._members():
            with _memory(pid, number) as fd:
                what = None if fd is None else _engine.survey_doing(fd, nonce)
            if what is not None:
                found[nonce] = (rank, *what)
        return found

    def _members(self) -> list[tuple[int, int, int, int]]:
        try:
            return _engine.survey_members(self._table)
        except ValueError:
            raise Error(
                "heap: the job runs another version of acp_mpi; use the one that it uses"
            ) from None

    def close(self) -> None:
        """Let go of the table."""
        if self._table >= 0:
            os.close(self._table)
            self._table = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()


@contextlib.contextmanager
def _memory(pid: int, number: int) -> Iterator[int | None]:
    """Open the memory file of a process for the time of a `with`; None if the process is gone."""
    try:
        fd = os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except PermissionError:
        raise _forbidden(pid) from None
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _look_at(rank: int, pid: int, number: int, nonce: int, cells: int) -> RankHeap | None:
    """Return the heap of one rank, None if it has left the job."""
    with _memory(pid, number) as fd:
        try:
            seen = None if fd is None else _engine.survey_heap(fd, rank, nonce, cells)
        except ValueError:  # what was that process is another one now
            return None
    if seen is None:
        return None
    whole, statistics, others, edges, parts, containers = seen
    uses = sorted((ContainerUse(*one) for one in containers), key=lambda one: -one.bytes)
    return RankHeap(
        rank, pid, whole, HeapStatistics(*statistics), others, edges, parts, uses
    )  # fmt: skip


def _open_table(pid: int) -> int:
    if not os.path.isdir(f"/proc/{pid}"):
        raise Error(f"heap: there is no process {pid}; {_NEXT}")
    for process in processes.family(pid):
        try:
            numbers = os.listdir(f"/proc/{process}/fd")
        except PermissionError:
            raise _forbidden(process) from None
        except OSError:
            continue
        for number in numbers:
            path = f"/proc/{process}/fd/{number}"
            with contextlib.suppress(OSError):
                if os.readlink(path).startswith(_TABLE):
                    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    raise Error(
        f"heap: process {pid} ({_name(pid)}) is in no job: neither it nor its children are "
        f"between acp.init() and acp.finalize(); {_NEXT}"
    )


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "gone"


def _forbidden(pid: int) -> Error:
    try:
        user = f"user {os.stat(f'/proc/{pid}').st_uid}"
    except OSError:
        user = "another user"
    return Error(
        f"heap: the system forbids looking at process {pid} of {user}; run this as that user or "
        "as root"
    )
