"""The rank's side of checkpoints: what it gives, and how all ranks agree on what is restored."""

from __future__ import annotations

from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import acp_mpi as acp
from acp_mpi.datastructs import contents
from acp_mpi.datastructs.container import Container
from acp_mpi.delegates.generations import Item, Key, Share
from acp_mpi.delegates.memory import place_of, release
from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job import membership
from acp_mpi.job.rendezvous.row import Process
from acp_mpi.job.rendezvous.secret import job_id
from acp_mpi.util import lifecycle, log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import SupportsIndex

    from acp_mpi.delegates.client import Delegate

_numbers: dict[str, int] = {}  # of folders: of the last checkpoint that this process has given
lifecycle.on_end(_numbers.clear)


class Kept(NamedTuple):
    """A command, and what is kept until it is over."""

    command: Share
    keep: list[Any]


def _node(delegate: Delegate, ranks: list[int]) -> dict[int, int]:
    """Return the ranks that the delegate serves, and their places among all."""
    if delegate.rank is None:
        return {_engine.rank(): ranks.index(_engine.rank())}
    rows = [Process.of(_engine.row_of(_engine.slot_of(rank))) for rank in ranks]
    own = Process.of(_engine.row()).node
    return {
        rank: i for i, (rank, row) in enumerate(zip(ranks, rows, strict=True)) if row.node == own
    }


def share_of(
    delegate: Delegate, folder: str, items: Mapping[str, Any], step: SupportsIndex
) -> Kept:
    """Return what this rank gives to a checkpoint."""
    ranks, at = acp.ranks(), _step_of(step)
    keep: list[Any] = []
    try:
        given = [_given(name, x, keep) for name, x in _by_name(items, "checkpoint")]
    except BaseException:
        release(keep)
        raise
    number = _numbers[folder] = _numbers.get(folder, -1) + 1
    key = Key(job_id(membership.job().place.secret).hex(), number, at, len(ranks))
    return Kept(Share(key, _engine.rank(), _node(delegate, ranks), given), keep)


def _step_of(step: SupportsIndex) -> int:
    try:
        return index(step)
    except TypeError:
        raise TypeError(f"checkpoint: step={step!r:.60} is not a whole number") from None


def _by_name(items: Mapping[str, Any], function: str) -> Iterable[tuple[str, Any]]:
    try:
        return items.items()
    except AttributeError:
        raise TypeError(
            f"{function}: items is {items!r:.60}; give a dict of arrays and containers by name"
        ) from None


def _given(name: str, x: Any, keep: list[Any]) -> Item:
    """Return where what is given of an item lies."""
    if not isinstance(x, Container):
        ga, nbytes, dtype, shape, kept = place_of(x, "checkpoint", write=False)
        keep.append(kept)
        return Item(name, "array", ga, nbytes, dtype, shape)
    held = contents.contents_of(x)
    ga, nbytes, _, shape, kept = place_of(held, "checkpoint", write=False)
    keep.append(kept)
    return Item(name, type(x).__name__, ga, nbytes, contents.dtype_of_contents(x), shape)


def _together(act: Callable[[], Any]) -> list[Any]:
    """Return what the act has returned on each rank; an error of one is an error of all."""
    result = error = None
    try:
        result = act()
    except Exception as caught:
        error = caught
    text = None if error is None else f"{type(error).__name__}: {error}"
    ranks = acp.ranks()
    said = acp.allgather((result, text), ranks=ranks)
    if error is not None:
        raise error
    for rank, (_, failure) in zip(ranks, said, strict=True):
        if failure is not None:
            raise Error(f"restore: rank {rank} has met {failure}")
    return [each for each, _ in said]


class _Restore:
    """What one rank restores."""

    def __init__(self, delegate: Delegate, folder: str, items: Mapping[str, Any]) -> None:
        ranks = acp.ranks()
        self._delegate, self._folder, self._items = delegate, folder, items
        self.place = ranks.index(_engine.rank())
        self._mine = self.place, len(ranks)
        self._wanted: list[Item] = []
        self.keep: list[Any] = []

    def _ask(self, command: str, *arguments: Any) -> Any:
        text = f"restore of {self._folder}"
        return self._delegate._begin(command, text, self._folder, *arguments).wait()

    def prepare(
        self, at: Mapping[str, int], shape: Mapping[str, Sequence[int]]
    ) -> tuple[list[Key], int]:
        """Return what is there, and the number of the last checkpoint that this process gave."""
        for name, x in _by_name(self._items, "restore"):
            self._wanted.append(_wanted(name, x, at, shape, self.keep))
        there = [Key(*each) for each in self._ask("wholes")]
        return there, _numbers.get(self._folder, -1)

    def check(self, key: Key) -> list[tuple[int, ...]] | None:
        """Return the shapes of what is there; None: it is damaged."""
        shapes: list[tuple[int, ...]] | None = self._ask("check", key, *self._mine, self._wanted)
        return shapes

    def fill(self, key: Key, shapes: list[tuple[int, ...]]) -> None:
        """Fill the arrays, at the delegate, and the containers, here."""
        import numpy

        landed: list[tuple[Any, Any]] = []
        wanted = []
        for item, shape in zip(self._wanted, shapes, strict=True):
            if item.kind != "array":
                array = numpy.empty(shape, "u1" if item.dtype is None else item.dtype)
                ga, nbytes, _, _, kept = place_of(array, "restore", write=True)
                self.keep.append(kept)
                landed.append((self._items[item.name], array))
                item = item._replace(ga=ga, nbytes=nbytes)
            wanted.append(item)
        self._ask("fill", key, *self._mine, wanted)
        for container, array in landed:
            contents.put_contents(container, array)


def restore(
    delegate: Delegate,
    folder: str,
    items: Mapping[str, Any],
    at: Mapping[str, int],
    shape: Mapping[str, Sequence[int]],
) -> int:
    """Have all ranks fill their items from the newest checkpoint that is whole for each of them."""
    mine = _Restore(delegate, folder, items)
    try:
        said = _together(lambda: mine.prepare(at, shape))
        _numbers[folder] = max(number for _, number in said)
        for key in said[0][0]:
            if not all(key in found for found, _ in said):
                continue
            shapes = _together(partial(mine.check, key))
            if all(each is not None for each in shapes):
                _together(partial(mine.fill, key, shapes[mine.place]))
                return int(key.step)
            log.warning("delegates", "the checkpoint of step %d in %s is damaged", key.step, folder)
    finally:
        release(mine.keep)
    raise FileNotFoundError(
        2, "restore: there is no checkpoint with the parts of all ranks", folder
    )


def _wanted(
    name: str,
    x: Any,
    at: Mapping[str, int],
    shape: Mapping[str, Sequence[int]],
    keep: list[Any],
) -> Item:
    """Return what is wanted for an item; where that goes, if it is an array."""
    if (name in at) != (name in shape):
        raise TypeError(f"restore: {name!r}: give both at= and shape=, or none of them")
    if isinstance(x, Container):
        if name in at:
            raise TypeError(f"restore: {name!r} is a container: it has no part of an array")
        return Item(name, type(x).__name__, 0, 0, contents.dtype_of_contents(x), ())
    ga, nbytes, dtype, extent, kept = place_of(x, "restore", write=True)
    keep.append(kept)
    item = Item(name, "array", ga, nbytes, dtype, extent)
    if name not in at:
        return item
    return item._replace(at=index(at[name]), whole=tuple(map(index, shape[name])))
