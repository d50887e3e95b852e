"""What the commands of a delegate do, one by one: files, checkpoints, calls of the program."""

from __future__ import annotations

import importlib
import os
import threading
from functools import reduce
from typing import TYPE_CHECKING, Any

from acp_mpi.delegates import checkpoints, files, generations
from acp_mpi.delegates.frames import COPIED, DONE, FAILED, portable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acp_mpi.delegates.generations import Item, Key, Share
    from acp_mpi.delegates.job import Client, Job
    from acp_mpi.delegates.server import Server

WAITS = object()  # in place of a result: for other ranks


class Commands:
    """A method for each command that a thread works on; the server has their order."""

    def __init__(self, server: Server, gone: Mapping[int, str]) -> None:
        self._server = server
        self.files = files.Files()
        self.checkpoints = checkpoints.Checkpoints(gone)
        self._counting = threading.Lock()
        self.read = self.written = 0  # bytes

    def _count(self, read: int = 0, written: int = 0) -> None:
        with self._counting:
            self.read += read
            self.written += written

    def close(self) -> None:
        """Close what is open."""
        self.files.close()
        self.checkpoints.close()

    def save(self, job: Job, path: str, *_: Any) -> object:
        """Write parts of a file: with this one all that have come."""
        jobs = [job, *self._server.take_along(job)]
        errors = self.files.save(path, [self._given(each) for each in jobs])
        over = [*zip(jobs, errors, strict=True)]
        self._count(written=sum(each.arguments[1].nbytes for each, error in over if not error))
        return self._tell(over, job)

    @staticmethod
    def _given(job: Job) -> files.Given:
        def copied() -> None:
            if job.data is None:
                job.client.answer(job.number, COPIED, None)

        data = None if job.data is None else job.data[0]
        return files.Given(job.client, job.arguments[1], data, copied)

    def load(self, job: Job, path: str, ga: int, nbytes: int, *how: Any) -> None:
        """Read a file, or a part of it, into global memory."""
        files.load(path, ga, nbytes, *how)
        self._count(read=nbytes)

    def commit(self, job: Job, path: str) -> None:
        """Give a file its name."""
        self.files.commit(path)

    def drop(self, job: Job, path: str, client: Client) -> None:
        """Remove a file of which a rank that is gone has saved a part."""
        self.files.drop(path, client)

    def checkpoint(self, job: Job, folder: str, share: Share) -> object:
        """Write what a rank gives to a checkpoint."""
        over = self.checkpoints.save(job, folder, share, job.data)
        if job.data is None:
            job.client.answer(job.number, COPIED, None)
        self._count(written=job.size)
        return self._tell(over, job)

    def abandon(self, job: Job, folder: str, rank: int, why: str) -> None:
        """Give up checkpoints that wait for a rank."""
        self._tell(self.checkpoints.abandon(folder, rank, why), job)

    def _tell(self, over: list[checkpoints.Outcome], job: Job) -> object:
        """End jobs with their errors; return, or raise, the outcome of one of them."""
        mine: list[Exception | None] = [error for one, error in over if one is job]
        for other, error in over:
            if other is not job:
                wrong = None if error is None else portable(with_path(error, other.path))
                self._server.end(other, DONE if error is None else FAILED, wrong)
        if mine and mine[0] is not None:
            raise mine[0]
        return None if mine else WAITS

    @staticmethod
    def wholes(job: Job, folder: str) -> list[tuple[Any, ...]]:
        """Return which checkpoints are whole."""
        return [tuple(whole.key) for whole in generations.wholes(folder)]

    @staticmethod
    def check(job: Job, folder: str, *asked: Any) -> list[tuple[int, ...]] | None:
        """Return the shapes of what is there of it; None if a file is not as it was written."""
        return generations.check(folder, *asked)

    def fill(
        self, job: Job, folder: str, key: Key, place: int, count: int, items: list[Item]
    ) -> None:
        """Read a part of a checkpoint into global memory."""
        generations.fill(folder, key, place, count, items)
        self._count(read=sum(item.nbytes for item in items))

    @staticmethod
    def call(job: Job, name: str, arguments: tuple[Any, ...]) -> Any:
        """Call a function of the program."""
        module, _, path = name.partition(":")
        function: Any = reduce(getattr, path.split("."), importlib.import_module(module))
        return function(*arguments)


def with_path(error: BaseException, path: str | None) -> BaseException:
    """Return an error of the system with the path that it is about."""
    if isinstance(error, OSError) and error.errno and error.filename is None and path is not None:
        return OSError(error.errno, os.strerror(error.errno), path)
    return error
