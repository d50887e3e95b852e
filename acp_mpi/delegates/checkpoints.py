"""Checkpoints: the state of a job at a step, a file with a manifest for each node.

Each rank of a node gives its share of a generation; the last one's completes the file, which ends
with the manifest.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from acp_mpi.delegates.disk import given_or_there, take_place, write_all
from acp_mpi.delegates.generations import Share, describe, manifest, prune
from acp_mpi.engine import _engine
from acp_mpi.errors import PeerLostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Data = Sequence[memoryview] | None

Outcome = tuple[Any, "Exception | None"]  # of a job


class _Generation:
    """One that this delegate writes."""

    def __init__(self, folder: str, share: Share) -> None:
        self.share = share
        self.given: set[int] = set()  # ranks
        self.waiting: list[Any] = []  # jobs
        self.error: Exception | None = None
        self._size = 0
        self._ranks: dict[int, dict[str, Any]] = {}  # places, and what is in the file of them
        self._path = os.path.join(folder, share.path)
        self._descriptor: int | None = None

    def write(self, share: Share, data: Data, gone: Mapping[int, str]) -> None:
        """Write what one rank gives; the error of all if one of the others has `gone`."""
        self._look(share, gone)
        if self._descriptor is None:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
            self._descriptor = os.open(f"{self._path}.part", flags, 0o666)
        held: dict[str, Any] = {}
        for i, item in enumerate(share.items):
            begin, crc = self._size, 0
            self._size += item.nbytes
            for at, piece in given_or_there(None if data is None else data[i], item):
                write_all(self._descriptor, piece, begin + at)
                crc = _engine.crc32c(piece, crc)
            held[item.name] = describe(item, begin, crc)
        self._ranks[share.node[share.rank]] = held

    def _look(self, share: Share, gone: Mapping[int, str]) -> None:
        """Raise what is wrong with a share, or with the generation."""
        if self.error is not None:
            raise self.error
        first = self.share
        if (share.key, share.node) != (first.key, first.node):
            raise ValueError(
                f"checkpoint: rank {share.rank} gives step {share.key.step} of {share.key.procs} "
                f"ranks, and rank {first.rank} step {first.key.step} of {first.key.procs}; all "
                "ranks of the job take part in each"
            )
        for rank in share.node.keys() - self.given:
            if rank in gone or not (_engine.is_alive(rank) and _engine.doing(rank) >= 0):
                raise self.without(rank, gone.get(rank, "has ended"))

    def without(self, rank: int, why: str) -> PeerLostError:
        """Return the error of all others when a rank does not give its share."""
        step = self.share.key.step
        return PeerLostError(
            f"checkpoint: rank {rank} {why} before it gave its share of step {step}"
        )

    def finish(self) -> None:
        """Write the manifest, and give the file its place."""
        assert self._descriptor is not None
        end = manifest(self.share.key, self._size, self._ranks)
        write_all(self._descriptor, memoryview(end), self._size)
        os.fsync(self._descriptor)
        take_place(self._path)

    def close(self) -> None:
        """Leave nothing behind that has not taken its place."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(f"{self._path}.part")


class Checkpoints:
    """The generations that ranks of this delegate give their shares of."""

    def __init__(self, gone: Mapping[int, str]) -> None:
        self._open: dict[tuple[str, int], _Generation] = {}
        self._gone = gone  # ranks that give no more, and why

    def save(self, job: object, folder: str, share: Share, data: Data) -> list[Outcome]:
        """Write a share; return the jobs that are over with it, and their errors."""
        over: list[Outcome] = []
        others = [(n, each) for (where, n), each in self._open.items() if where == folder]
        for number, other in others:
            if number < share.key.number and share.rank not in other.given:
                over += self._fail(folder, other, _apart(share, number))
        at = (folder, share.key.number)
        generation = self._open.setdefault(at, _Generation(folder, share))
        generation.given.add(share.rank)
        generation.waiting.append(job)
        try:
            later = max((number for number, _ in others), default=-1)
            if len(generation.given) == 1 and later > share.key.number:
                raise _apart(share, later)
            generation.write(share, data, self._gone)
            if len(generation.given) == len(share.node):
                generation.finish()
                prune(folder, share.key.job)
                over += [(one, None) for one in generation.waiting]
                generation.waiting = []
        except Exception as error:
            over += self._fail(folder, generation, error)
        if len(generation.given) == len(share.node):
            self._open.pop(at, None)
            generation.close()
        return over

    def missing(self, job: object) -> list[int]:
        """Return the ranks that have not given their shares of the generation of a job."""
        for generation in [*self._open.values()]:
            if job in generation.waiting:
                return sorted(generation.share.node.keys() - generation.given)
        return []

    @staticmethod
    def _fail(folder: str, generation: _Generation, error: Exception) -> list[Outcome]:
        """All who have given their shares hear of the error, and all who will."""
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error = OSError(error.errno, os.strerror(error.errno), folder)
        generation.error = generation.error or error
        waiting, generation.waiting = generation.waiting, []
        return [(job, generation.error) for job in waiting]

    def abandon(self, folder: str, rank: int, why: str) -> list[Outcome]:
        """Note that a rank gives no more; return the jobs that are over with that."""
        over: list[Outcome] = []
        for (where, _), generation in list(self._open.items()):
            if where == folder and rank in generation.share.node.keys() - generation.given:
                over += self._fail(folder, generation, generation.without(rank, why))
        return over

    def close(self) -> None:
        """Drop those that are not complete."""
        while self._open:
            self._open.popitem()[1].close()


def _apart(share: Share, number: int) -> ValueError:
    return ValueError(
        f"checkpoint: rank {share.rank} gives number {share.key.number}, of step {share.key.step}, "
        f"and others give number {number}; all ranks take part in each, or in restore"
    )
