"""A vector: elements of one type, side by side on one rank."""

from collections.abc import Iterable
from typing import Any, SupportsIndex, overload

from acp_mpi.datastructs.container import NOTHING, Plain, T
from acp_mpi.datastructs.sequence import Sequence


class Vector(Sequence[T]):
    """A growing row of elements of one type, contiguous in the memory of one rank.

    `dtype` is int, float, bool, a letter of the struct module, "V13" for 13 raw bytes, or anything
    that numpy.dtype takes. The elements are `contents` at first, or `size` zeros; `rank` None is
    the calling one. Local to the caller (paper 000).
    """

    _KIND = 7

    @overload
    def __init__(
        self: "Vector[Plain]",
        dtype: type[Plain],
        contents: Iterable[Plain] = ...,
        *,
        size: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "Vector[Any]",
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

    def view(self) -> Any:
        """Return a NumPy array over the elements themselves, for ranks of the same node.

        Without a copy. The array is good until the vector grows or is destroyed; stores through it
        are seen by all ranks, and are not an operation of the vector. AddressError on other nodes.
        """
        from acp_mpi.rma.arrays import view

        size, _, width, _, ga = self._look("Vector.view")
        if not size or not width:
            return self[:0]
        return view(ga, size, self.dtype)
