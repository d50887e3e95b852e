"""The generations of a checkpoint, as they are in its folder.

Each delegate has a file of each, with what its ranks gave, and a manifest at its end. A generation
is whole where its manifests speak of all ranks of the job, and each file is as long as its manifest
says.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import time
import zlib
from collections import defaultdict
from math import prod
from typing import Any, NamedTuple

from acp_mpi.delegates.disk import let_go, opened, pieces, read_all
from acp_mpi.engine import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

DATA = ".data"
_KEPT = 2
_FORM = 3  # 1 had sums of CRC-32, 2 a manifest in a file of its own
_END = b"%08x %016x\n"  # the sum of the manifest, and its length
_NAME = re.compile(r"(-?\d+-[0-9a-f]{8}-\d+)\.\d+\.data(\.part)?")
_CHUNK = 4 << 20


class Item(NamedTuple):
    """An array, or what a container holds, in memory."""

    name: str
    kind: str  # "array", or the container's
    ga: int
    nbytes: int
    dtype: Any  # None: bytes
    shape: tuple[int, ...]
    at: int | None = None  # its first element in an array of the shape `whole`, where that is asked
    whole: tuple[int, ...] | None = None


class Key(NamedTuple):
    """A generation."""

    job: str
    number: int  # of the checkpoints of this folder in the job
    step: int
    procs: int  # of the job

    @property
    def stem(self) -> str:
        """What its files begin with."""
        return f"{self.step}-{self.job[:8]}-{self.number}"


class Share(NamedTuple):
    """What a rank gives to a generation."""

    key: Key
    rank: int
    node: dict[int, int]  # the ranks of its delegate, and their places among all
    items: list[Item]

    @property
    def path(self) -> str:
        """The name of the delegate's file."""
        return f"{self.key.stem}.{min(self.node.values())}{DATA}"


def describe(item: Item, begin: int, crc: int) -> dict[str, Any]:
    """Return what a manifest says about an item."""
    from numpy.lib import format

    described = None if item.dtype is None else repr(format.dtype_to_descr(item.dtype))
    return {
        "kind": item.kind, "type": described, "shape": item.shape, "begin": begin,
        "bytes": item.nbytes, "crc": crc,
    }  # fmt: skip


def manifest(key: Key, size: int, ranks: dict[int, dict[str, Any]]) -> bytes:
    """Return what follows `size` bytes of a file: it says what is of which place."""
    said = {"form": _FORM, "written": time.time(), "bytes": size, "ranks": ranks, **key._asdict()}
    text = json.dumps(said).encode()
    return text + _END % (zlib.crc32(text), len(text))


def _read_manifest(path: str) -> dict[str, Any] | None:
    """Return what the manifest of a file says; None where that is not whole."""
    try:
        with open(path, "rb") as file:
            at = file.seek(-len(_END % (0, 0)), os.SEEK_END)
            crc, length = (int(number, 16) for number in file.read().split())
            begin = file.seek(at - length)
            text = file.read(length)
        if crc != zlib.crc32(text):
            return None
        said: dict[str, Any] = json.loads(text)
        return said if (said["form"], said["bytes"]) == (_FORM, begin) else None
    except (OSError, ValueError):
        return None


class Whole:
    """A generation of which all is there."""

    def __init__(self, key: Key, parts: list[tuple[str, dict[str, Any]]]) -> None:
        self.key = key
        self.written = max(said["written"] for _, said in parts)
        self._held: dict[int, dict[str, tuple[str, dict[str, Any]]]] = {  # by place and name
            int(place): {name: (path, item) for name, item in items.items()}
            for path, said in parts
            for place, items in said["ranks"].items()
        }

    @property
    def complete(self) -> bool:
        """Whether there is something of all ranks."""
        return len(self._held) == self.key.procs

    def find(self, item: Item, place: int, count: int) -> list[tuple[str, dict[str, Any]]]:
        """Return what has the bytes of an item, in order; ValueError, TypeError: nothing has."""
        held = {n: items[item.name] for n, items in self._held.items() if item.name in items}
        step, asked = self.key.step, f"restore: {item.name!r}"
        if not held:
            names = ", ".join(sorted({name for items in self._held.values() for name in items}))
            raise ValueError(f"{asked} was not saved at step {step}; {names or 'nothing'} was")
        if item.at is not None:
            found = [held[n] for n in sorted(held)]
        elif count == self.key.procs and place in held:
            found = [held[place]]
        elif len(held) == 1:
            found = list(held.values())
        elif count == self.key.procs:
            raise ValueError(f"{asked} was saved by other ranks; give at= and shape= of it")
        else:
            raise ValueError(
                f"{asked} was saved by {len(held)} of {self.key.procs} ranks, and there are "
                f"{count} now; give at= and shape= of it"
            )
        for _, there in found:
            _check_kind(asked, item, there)
        lengths = sum(prod(there["shape"]) for _, there in found)
        if item.whole is not None and lengths != prod(item.whole):
            raise ValueError(f"{asked} has {lengths} elements in all, not the shape {item.whole}")
        if item.kind == "array" and item.at is None:
            shape, nbytes = tuple(found[0][1]["shape"]), found[0][1]["bytes"]
            alike = nbytes == item.nbytes if item.dtype is None else shape == item.shape
            if not alike:
                raise ValueError(
                    f"{asked} has the shape {shape} and {nbytes} bytes; this has {item.shape} and "
                    f"{item.nbytes}"
                )
        return found

    def ranges(self, item: Item, place: int, count: int) -> Iterator[tuple[str, int, int, int]]:
        """Yield paths, where to read there, how much, and where in the item it belongs."""
        found = self.find(item, place, count)
        width = item.dtype.itemsize if item.dtype is not None else 1
        low = 0 if item.at is None else item.at * width
        high, at = low + item.nbytes, 0
        for path, there in found:
            begin, end = max(low, at), min(high, at + there["bytes"])
            if begin < end:
                yield path, there["begin"] + begin - at, end - begin, begin - low
            at += there["bytes"]
        if low < 0 or high > at:
            raise ValueError(
                f"restore: {item.name!r} has {at // width} elements, and {low // width} to "
                f"{high // width} are asked for"
            )


def _check_kind(asked: str, item: Item, there: dict[str, Any]) -> None:
    from numpy.lib import format

    if there["kind"] != item.kind:
        raise TypeError(f"{asked} was saved from a {there['kind']}, and this is a {item.kind}")
    described = there["type"]
    kind = None if described is None else format.descr_to_dtype(ast.literal_eval(described))
    if kind != item.dtype and (item.dtype is not None or item.kind != "array"):
        names = [str(one) if one is not None else "objects" for one in (kind, item.dtype)]
        raise TypeError(f"{asked} has elements of {names[0]}, and this of {names[1]}")


def wholes(folder: str) -> list[Whole]:
    """Return the generations of which all is there, the newest first."""
    found: dict[Key, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if name.endswith(DATA) and (said := _read_manifest(path)) is not None:
            found[Key(said["job"], said["number"], said["step"], said["procs"])].append(
                (path, said)
            )
    those = [Whole(key, parts) for key, parts in found.items()]
    return sorted(
        (whole for whole in those if whole.complete), key=lambda one: one.written, reverse=True
    )


def _named(folder: str, key: Key) -> list[Whole]:
    """Return it and those before it."""
    found = wholes(folder)
    keys = [whole.key for whole in found]
    if key not in keys:
        raise FileNotFoundError(2, f"restore: step {key.step} has gone", folder)
    return found[keys.index(key) :]


def check(
    folder: str, key: Key, place: int, count: int, items: list[Item]
) -> list[tuple[int, ...]] | None:
    """Return the shapes of what is there of the items; None if a file is not as it was written."""
    whole = _named(folder, key)[0]
    shapes = []
    seen: set[tuple[str, int]] = set()
    for item in items:
        found = whole.find(item, place, count)
        list(whole.ranges(item, place, count))
        for path, there in found:
            at = (path, there["begin"])
            if at not in seen and _crc(path, there["begin"], there["bytes"]) != there["crc"]:
                return None
            seen.add(at)
        shapes.append(tuple(found[0][1]["shape"]))
    return shapes


def _crc(path: str, begin: int, nbytes: int) -> int:
    crc = 0
    with open(path, "rb", buffering=0) as file:
        chunk = memoryview(bytearray(min(nbytes, _CHUNK)))
        for at in range(0, nbytes, _CHUNK):
            piece = chunk[: min(_CHUNK, nbytes - at)]
            read_all(file.fileno(), piece, begin + at, path)
            crc = _engine.crc32c(piece, crc)
    return crc


def fill(folder: str, key: Key, place: int, count: int, items: list[Item]) -> None:
    """Read the items of a generation, and remove those that came after it."""
    rest = _named(folder, key)
    for item in items:
        for path, begin, nbytes, offset in rest[0].ranges(item, place, count):
            with open(path, "rb", buffering=0) as file:
                for at, piece in pieces(item.ga + offset, nbytes, read=False):
                    read_all(file.fileno(), piece, begin + at, path)
    _keep(folder, _files(folder), {whole.key.stem for whole in rest})


def prune(folder: str, job: str) -> None:
    """Remove all but the two newest generations, and what this job still writes."""
    there = _files(folder)  # before the look at what is whole: nothing begun later is touched
    found = wholes(folder)
    newest = max((whole.key.number for whole in found if whole.key.job == job), default=-1)
    kept = {whole.key.stem for whole in found[:_KEPT]}
    for stem in {stem for _, stem in there}:
        _, whose, number = stem.rsplit("-", 2)
        if whose == job[:8] and int(number) > newest:
            kept.add(stem)
    _keep(folder, there, kept)


def _files(folder: str) -> list[tuple[str, str]]:
    """Return the names of files, and their stems."""
    return [(name, it[1]) for name in os.listdir(folder) if (it := _NAME.fullmatch(name))]


def _keep(folder: str, files: list[tuple[str, str]], stems: Container[str]) -> None:
    """Remove those of the files that have none of the stems."""
    paths = [os.path.join(folder, name) for name, stem in files if stem not in stems]
    removed = opened(paths)
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another delegate has been faster
            os.unlink(path)
    let_go(removed)
