"""A deque: elements of one type on one rank, put in and taken out at both ends."""

from collections.abc import Iterable
from typing import Any, SupportsIndex, overload

from acp_mpi.datastructs.container import NOTHING, Plain, T
from acp_mpi.datastructs.sequence import Sequence
from acp_mpi.datastructs.sequence_copies import SequenceCopies
from acp_mpi.engine import _engine


class Deque(Sequence[T]):
    """A row of elements of one type on one rank, in which both ends cost the same.

    `dtype` is int, float, bool, a letter of the struct module, "V13" for 13 raw bytes, or anything
    that numpy.dtype takes. The elements are `contents` at first, or `size` zeros; `rank` None is
    the calling one. Local to the caller (paper 000).
    """

    _KIND = 2

    @overload
    def __init__(
        self: "Deque[Plain]",
        dtype: type[Plain],
        contents: Iterable[Plain] = ...,
        *,
        size: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "Deque[Any]",
        dtype: Any,
        contents: Any = NOTHING,
        *,
        size: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    def __init__(
        self,
        dtype: Any,
        contents: Any = NOTHING,
        *,
        size: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
    ) -> None:
        super().__init__(dtype, contents, size=size, rank=rank)

    appendleft = _engine.SequenceHandle[T].push_front
    popleft = _engine.SequenceHandle[T].pop_front

    appendleft_ga = SequenceCopies[T].push_front_ga
