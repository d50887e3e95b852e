"""Arrays of any rank with NumPy's indexing: reading gets, assigning puts."""

from math import prod
from operator import index
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar, overload

from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError
from acp_mpi.rma.buffers import hosted
from acp_mpi.rma.shapes import extent_of, kind_of

if TYPE_CHECKING:
    from numpy import dtype as Dtype
    from numpy import float64, generic
    from numpy.typing import DTypeLike, NDArray

    from acp_mpi.rma.arrays import Shape

S = TypeVar("S", bound="generic")


class RemoteArray(Generic[S]):
    """A C-contiguous array at a global address, of any rank.

    `R[index]` gets into a new NumPy array (a scalar for a single element), `R[index] = value`
    puts with NumPy's broadcasting; both are done when they return. Index with integers, slices,
    `...` and None, as for views of NumPy; index arrays are refused.
    """

    @overload
    def __init__(
        self: "RemoteArray[float64]", ga: SupportsIndex, shape: "Shape", dtype: type[float] = float
    ) -> None: ...
    @overload
    def __init__(self, ga: SupportsIndex, shape: "Shape", dtype: "type[S] | Dtype[S]") -> None: ...
    @overload
    def __init__(
        self: "RemoteArray[Any]", ga: SupportsIndex, shape: "Shape", dtype: "DTypeLike"
    ) -> None: ...
    def __init__(self, ga: SupportsIndex, shape: Any, dtype: Any = float) -> None:
        import numpy

        kind, extent = kind_of(dtype, "remote"), extent_of(shape, "remote")
        self.dtype: Dtype[S] = kind.base  # as for arrays of NumPy
        self.shape: tuple[int, ...] = extent + kind.shape
        if _engine.owner(ga, "remote") < 0:
            raise AddressError("remote: the null address 0 was given; ask its owner for another")
        if self.nbytes >= 1 << 63:
            raise ValueError(
                f"remote: the size {self.nbytes} is larger than any region (1 TiB); give less"
            )
        self.ga = index(ga)
        # Never read: indexing it tells which bytes are meant.
        self._plan = numpy.lib.stride_tricks.as_strided(
            numpy.empty(1, self.dtype), self.shape, _strides(self.shape, self.dtype.itemsize)
        )

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return int(self.size * self.dtype.itemsize)

    def __reduce__(self) -> Any:  # others reach the same elements
        return RemoteArray, (self.ga, self.shape, self.dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a remote array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<acp_mpi remote array {self.shape} {self.dtype} at {self.ga:#x}>"

    def _select(self, key: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return (byte offset, shape, strides) of what `key` selects."""
        parts = tuple(map(_part, key if isinstance(key, tuple) else (key,)))
        # A trailing ... makes even a single element a view.
        if not any(part is Ellipsis for part in parts):
            parts = (*parts, Ellipsis)
        chosen = self._plan[parts]
        offset = chosen.__array_interface__["data"][0] - self._plan.__array_interface__["data"][0]
        return offset, chosen.shape, chosen.strides

    @overload
    def __getitem__(self, key: slice | EllipsisType | None) -> "NDArray[S]": ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        import numpy

        offset, shape, strides = self._select(key)
        out = numpy.empty(shape, self.dtype)
        if out.size:
            _move(self.ga + offset, out, strides, write=False)
        return out if shape or _keeps_array(key) else out[()]

    def __setitem__(self, key: Any, value: Any) -> None:
        import numpy

        offset, shape, strides = self._select(key)
        source = numpy.asarray(hosted(value, "remote"), self.dtype)
        extra = max(source.ndim - len(shape), 0)
        if source.shape[:extra] == (1,) * extra:  # assignment in NumPy, too, drops those
            source = source.reshape(source.shape[extra:])
        try:
            data = numpy.ascontiguousarray(numpy.broadcast_to(source, shape))
        except ValueError:
            raise ValueError(
                f"a value of shape {source.shape} cannot be broadcast to {shape}, the part of the "
                "remote array that the index selects; give one of that shape, or a scalar"
            ) from None
        if data.size:
            _move(self.ga + offset, data.reshape(shape), strides, write=True)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("a remote array cannot be viewed without a copy; use acp.view")
        data = self[...]
        return data if dtype is None else data.astype(dtype, copy=False)


def _part(part: Any) -> Any:
    """Return a part of an index that selects a view of NumPy, for only that is as cheap."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    try:
        if isinstance(part, bool) or getattr(getattr(part, "dtype", None), "kind", "") == "b":
            raise TypeError
        return index(part)
    except TypeError:
        raise TypeError(
            f"a remote array is indexed by integers and slices, not {part!r}; use copy_many for "
            "scattered elements"
        ) from None


def _keeps_array(key: Any) -> bool:
    return key is Ellipsis or (isinstance(key, tuple) and any(p is Ellipsis for p in key))


def _strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    for n in reversed(shape):
        strides.append(itemsize)
        itemsize *= max(n, 1)
    return tuple(reversed(strides))


def _move(ga: int, local: Any, strides: tuple[int, ...], *, write: bool) -> None:
    """Transfer `local`, contiguous, from or to the bytes that `strides` select at `ga`."""
    run = local.itemsize  # the bytes that lie together, in both
    dimension = local.ndim
    while dimension and (strides[dimension - 1] == run or local.shape[dimension - 1] == 1):
        run *= local.shape[dimension - 1]
        dimension -= 1
    flat = memoryview(local.reshape(-1).view("u1"))
    if dimension == 0:
        (_engine.put if write else _engine.get)(ga, flat)
        return
    moves = (
        (ga + offset, flat[i * run : (i + 1) * run])
        for i, offset in enumerate(_offsets(local.shape[:dimension], strides[:dimension]))
    )
    if write:
        _engine.put_all("put", moves)
    else:
        _engine.get_all("get", moves)


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    if not shape:
        yield 0
        return
    for i in range(shape[0]):
        for inner in _offsets(shape[1:], strides[1:]):
            yield i * strides[0] + inner


@overload
def remote(
    ga: SupportsIndex, shape: "Shape", dtype: type[float] = float
) -> "RemoteArray[float64]": ...
@overload
def remote(ga: SupportsIndex, shape: "Shape", dtype: "type[S] | Dtype[S]") -> RemoteArray[S]: ...
@overload
def remote(ga: SupportsIndex, shape: "Shape", dtype: "DTypeLike") -> RemoteArray[Any]: ...
def remote(ga: SupportsIndex, shape: Any, dtype: Any = float) -> RemoteArray[Any]:
    """Return a NumPy-like array at `ga` on any rank; slices get and put."""
    return RemoteArray(ga, shape, dtype)
