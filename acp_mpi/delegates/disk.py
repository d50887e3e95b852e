"""Bytes between global memory and files, and files that take the place of others."""

from __future__ import annotations

import _thread
import contextlib
import os

from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from acp_mpi.delegates.generations import Item
    from acp_mpi.delegates.memory import Part

_CHUNK = 4 << 20


def pieces(ga: int, nbytes: int, *, read: bool) -> Iterator[tuple[int, memoryview]]:
    """Yield (offset, bytes) of global memory; `read`: filled, else to be filled.

    Memory that load and store reach comes as it is, in one piece.
    """
    if not nbytes:
        return
    try:
        yield 0, memoryview(_engine.mapped(ga, nbytes))
        return
    except AddressError:
        chunk = memoryview(bytearray(min(nbytes, _CHUNK)))
    for at in range(0, nbytes, _CHUNK):
        piece = chunk[: min(_CHUNK, nbytes - at)]
        if read:
            _engine.get(ga + at, piece)
        yield at, piece
        if not read:
            _engine.put(ga + at, piece)


def given_or_there(data: memoryview | None, part: Part | Item) -> Iterable[tuple[int, memoryview]]:
    """Return offsets and bytes of a part: `data`, or what lies where the part says."""
    return pieces(part.ga, part.nbytes, read=True) if data is None else [(0, data)]


def write_all(descriptor: int, data: memoryview, at: int) -> None:
    """Write all of it."""
    while data:
        done = os.pwrite(descriptor, data[:_CHUNK], at)
        if done == _CHUNK:
            with contextlib.suppress(OSError):  # a hint: the disk begins with it
                os.posix_fadvise(descriptor, at, done, os.POSIX_FADV_DONTNEED)
        data, at = data[done:], at + done


def take_place(path: str) -> None:
    """Rename what has been written as `path.part`, so that it stays."""
    old = opened([path])
    try:
        os.rename(f"{path}.part", path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        let_go(old)


def opened(paths: Iterable[str]) -> list[int]:
    """Return descriptors of files that are to be removed, of those that are there."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):  # it has gone, or descriptors have run out
            found.append(os.open(path, os.O_PATH))
    return found


def let_go(descriptors: list[int]) -> None:
    """Close removed files: the system gives their memory and blocks back, which nobody awaits."""

    def close() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    if not descriptors:
        return
    try:
        _thread.start_new_thread(close, ())  # which nobody waits for, as `Thread.start` does
    except RuntimeError:  # the system has no thread left
        close()


def read_all(descriptor: int, into: memoryview, at: int, path: str) -> None:
    """Read as much as there is room for."""
    while into:
        done = os.preadv(descriptor, [into], at)
        if not done:
            raise EOFError(f"load: {path} has become shorter meanwhile")
        into, at = into[done:], at + done
