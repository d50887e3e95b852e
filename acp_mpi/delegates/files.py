"""Files that a delegate reads and writes: raw ones and NumPy's, whole or in parts of several ranks.

A file is written beside its place, as `path.part`, and takes it when it is complete. All calls for
one path come one after the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from math import prod
from typing import NamedTuple

from acp_mpi.delegates.disk import given_or_there, pieces, read_all, take_place, write_all
from acp_mpi.delegates.hdf5 import Datasets, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from acp_mpi.delegates.memory import Part


def _open_part(path: str) -> int:
    """Open `path.part` for this delegate alone, empty, whatever a killed one may have left."""
    part = f"{path}.part"
    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(part) and os.path.samestat(os.stat(part), os.fstat(descriptor)):
                os.ftruncate(descriptor, 0)
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise ValueError(
                f"save: another delegate writes {part}; have one delegate write all of a file"
            ) from None
        os.close(descriptor)  # it has just got its place


class Given(NamedTuple):
    """A part that a client saves: `data`, or what lies where the part says."""

    client: object
    part: Part
    data: memoryview | None
    copied: Callable[[], None]  # to be called when it may change


class File:
    """A file under way."""

    def __init__(
        self,
        path: str,
        part: Part,
        whole: tuple[int, ...] | None,
        datasets: Datasets | None,
    ) -> None:
        self.key, self._datasets = part.key, datasets
        self.path, self.whole, self.dtype = path, whole, part.dtype
        single = part.whole is None and part.parts is None and not part.at
        self.parts = 1 if single else part.parts
        self.clients: list[object] = []  # that have saved a part
        self.error: Exception | None = None
        self._spans: list[tuple[int, int]] = []  # of elements
        self._begin = 0
        self._flushed = False
        self._descriptor = _open_part(path) if datasets is None else datasets.descriptor
        try:
            if path.endswith(".npy"):
                self._write_head()
            if datasets is not None and part.key is not None and whole is not None:
                self._begin = datasets.add(part.key, whole, part.dtype)
        except Exception:
            self.drop()
            raise

    def _write_head(self) -> None:
        from numpy.lib import format

        assert self.whole is not None
        head = {
            "descr": format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": self.whole,
        }
        with os.fdopen(os.dup(self._descriptor), "wb") as file:
            format.write_array_header_2_0(file, head)
            self._begin = file.tell()

    def take_span(self, part: Part) -> None:
        """Note which elements a part has; ValueError if they are not of the file, or another's."""
        low, high = part.at, part.at + part.nbytes // part.width
        if low < 0 or (self.whole is not None and high > prod(self.whole)):
            raise ValueError(
                f"save: {self.path}: elements {low} to {high} of a file of the shape {self.whole}"
            )
        if clash := next((s for s in self._spans if low < s[1] and s[0] < high), None):
            raise ValueError(
                f"save: {self.path}: elements {low} to {high} overlap {clash[0]} to {clash[1]}, "
                "which another part has written"
            )
        self._spans.append((low, high))

    def write(self, given: Given) -> None:
        """Write a part, unless there is an error of another one."""
        part, begin = given.part, self._begin + given.part.at * given.part.width
        self.clients.append(given.client)
        self._flushed = False
        if self.error is not None:
            return
        try:
            for at, piece in given_or_there(given.data, part):
                write_all(self._descriptor, piece, begin + at)
            given.copied()
        except Exception as error:
            self.error = error

    def flush(self) -> None:
        """Have what is written on disk, unless there is an error."""
        try:
            if self.error is None and not self._flushed:
                os.fdatasync(self._descriptor)
                self._flushed = True
        except OSError as error:
            self.error = error

    def finish(self) -> None:
        """Give it its place, or remove it and raise what was wrong."""
        at = 0
        for low, high in sorted(self._spans):
            at = high if low <= at < high else at
        most = max((high for _, high in self._spans), default=0)
        count = most if self.whole is None else prod(self.whole)
        if at < count and self.error is None:
            self.error = ValueError(
                f"commit: {self.path}: element {at} of {count} was not saved; nothing of the file "
                "is kept"
            )
        if self.error is not None:
            self.drop()
            raise self.error
        if self._datasets is not None and self.key is not None:
            self._datasets.end(self.key, keep=True)
            if not self._datasets.over:
                return
        self._settle()

    def _settle(self) -> None:
        try:
            if not self._flushed:
                os.fdatasync(self._descriptor)
            take_place(self.path)
        except OSError:
            self._remove()
            raise
        os.close(self._descriptor)

    def drop(self) -> None:
        """Remove what is there of it."""
        if self._datasets is not None and self.key is not None:
            self._datasets.end(self.key, keep=False)
            self._flushed = False
            if not self._datasets.over:
                return
            if self._datasets.kept:
                self._settle()
                return
        self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # it has taken its place
            os.unlink(f"{self.path}.part")
        os.close(self._descriptor)


class Files:
    """The files of a delegate that are under way."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str | None], File] = {}  # by path and dataset
        self._datasets: dict[str, Datasets] = {}

    def save(self, path: str, parts: Sequence[Given]) -> list[Exception | None]:
        """Write parts, and give the file its place with the last one; return their errors.

        Parts that come together are flushed together.
        """
        errors: list[Exception | None] = [None] * len(parts)
        written: dict[int, File] = {}
        for i, given in enumerate(parts):
            try:
                written[i] = file = self._file(path, given.part)
                file.write(given)
                if len(file.clients) == file.parts:
                    self._flush(written, errors)
                    del self._open[path, given.part.key]
                    file.finish()
            except Exception as error:
                errors[i] = error
        self._flush(written, errors)
        return errors

    @staticmethod
    def _flush(written: dict[int, File], errors: list[Exception | None]) -> None:
        for file in set(written.values()):
            file.flush()
        for i, file in written.items():
            errors[i] = file.error
        written.clear()

    def _file(self, path: str, part: Part) -> File:
        whole = part.whole
        numpys = path.endswith(".npy")
        if numpys and part.key is not None:
            raise ValueError(f"save: {path}: a file of NumPy's has no datasets; leave key= out")
        typed = numpys or part.key is not None
        if typed and part.dtype is None:
            raise TypeError(f"save: {path}: bytes have no type of elements; give an array")
        if typed and whole is None and part.at:
            raise ValueError(f"save: {path}: at={part.at} of a file of which shape? give shape=")
        if whole is None and not part.at and (typed or part.parts is None):
            whole = part.shape
        at = (path, part.key)
        file = self._open.get(at) or self._begin(path, part, whole)
        try:
            if (file.whole, file.dtype) != (whole, part.dtype):
                raise ValueError(
                    f"save: {path} was begun with the shape {file.whole} of {file.dtype}, and this "
                    f"part says {whole} of {part.dtype}; give the same"
                )
            if part.parts not in (None, file.parts or part.parts):
                raise ValueError(
                    f"save: {path} was begun with parts={file.parts}, and this part says "
                    f"{part.parts}; give the same"
                )
            file.take_span(part)
        except ValueError:
            if at not in self._open:
                file.drop()
            raise
        file.parts = file.parts or part.parts
        self._open[at] = file
        return file

    def _begin(self, path: str, part: Part, whole: tuple[int, ...] | None) -> File:
        if os.path.isdir(path):
            raise IsADirectoryError(21, os.strerror(21), path)
        # A device, say, would be removed by what takes its place.
        if os.path.exists(path) and not os.path.isfile(path):
            raise ValueError(f"save: {path} is a device, a pipe or a socket; give a regular file")
        if part.key is None:
            return File(path, part, whole, None)
        datasets = self._datasets.get(path)
        if datasets is None or datasets.over:
            descriptor = _open_part(path)
            try:
                datasets = self._datasets[path] = Datasets(path, descriptor)
            except Exception:
                os.unlink(f"{path}.part")
                os.close(descriptor)
                raise
        return File(path, part, whole, datasets)

    def commit(self, path: str) -> None:
        """Give a file its place: no other part comes."""
        files = [self._open.pop(at) for at in list(self._open) if at[0] == path]
        if not files:
            raise FileNotFoundError(2, "commit: no part of it was saved since", path)
        for file in files:
            file.finish()

    def of(self, client: object) -> set[str]:
        """Return the paths of which it has saved a part."""
        return {path for (path, _), file in list(self._open.items()) if client in file.clients}

    def drop(self, path: str, client: object) -> None:
        """Remove a file that is not complete if the client had a part in it."""
        for at, file in list(self._open.items()):
            if at[0] == path and client in file.clients:
                del self._open[at]
                file.drop()

    def close(self) -> None:
        """Remove all that was not committed."""
        while self._open:
            self._open.popitem()[1].drop()


def load(path: str, ga: int, nbytes: int, dtype: Any, at: int, key: str | None) -> None:
    """Read a file, or a dataset of it, into global memory, once type and length are right."""
    width = dtype.itemsize if dtype is not None else 1
    with open(path, "rb", buffering=0) as file:
        begin, size, elements = 0, os.fstat(file.fileno()).st_size, None
        if key is not None:
            begin, size, elements = find(path, key, dtype)
        elif path.endswith(".npy"):
            begin, size = _check_head(path, file, dtype)
        if at < 0 or at * width + nbytes > size:
            raise ValueError(
                f"load: {path} has {size // width} elements, and {at} to {at + nbytes // width} "
                "are asked for"
            )
        if nbytes:
            for offset, piece in pieces(ga, nbytes, read=False):
                if elements is not None:
                    first = at * width + offset
                    piece[:] = memoryview(elements)[first : first + len(piece)]
                    continue
                read_all(file.fileno(), piece, begin + at * width + offset, path)


def _check_head(path: str, file: Any, dtype: Any) -> tuple[int, int]:
    """Return where the elements of a `.npy` file begin, and how many bytes they are."""
    from numpy.lib import format

    try:
        version = format.read_magic(file)
        read = format.read_array_header_1_0 if version == (1, 0) else format.read_array_header_2_0
        shape, fortran, found = read(file)
    except ValueError as reason:
        raise ValueError(f"load: {path}: {reason}") from None
    if dtype is not None and found != dtype:
        raise TypeError(
            f"load: {path} has elements of {found}, and the memory of {dtype}; give an array of "
            "that type"
        )
    if fortran and len(shape) > 1:
        raise ValueError(f"load: {path} is in Fortran order; save it in C order")
    begin, size = file.tell(), prod(shape) * found.itemsize
    if begin + size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"load: {path} is shorter than its shape {shape} says")
    return begin, size
