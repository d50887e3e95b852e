"""Operations that fold: names, NumPy's ufuncs, MPI's operations, Python functions."""

from __future__ import annotations

import operator
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NAMES = ("sum", "prod", "min", "max", "and", "or", "xor", "land", "lor", "lxor")
_UFUNCS = (
    "add", "multiply", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor",
    "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
_MPI = ("SUM", "PROD", "MIN", "MAX", "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR")
_ON_OBJECTS: tuple[Callable[[Any, Any], Any], ...] = (
    operator.add,
    operator.mul,
    lambda a, b: b if b < a or b != b else a,  # what is not a number stays
    lambda a, b: b if b > a or b != b else a,
    operator.and_,
    operator.or_,
    operator.xor,
    lambda a, b: bool(a) and bool(b),
    lambda a, b: bool(a) or bool(b),
    lambda a, b: bool(a) != bool(b),
)
_TYPES = {
    "b1": 0, "i1": 1, "i2": 2, "i4": 3, "i8": 4, "u1": 5, "u2": 6, "u4": 7, "u8": 8,
    "f4": 9, "f8": 10, "f16": 11, "c8": 12, "c16": 13,
}  # fmt: skip
_WHOLE_ONLY = range(4, 7)  # operations on bits
_ORDERED_ONLY = range(2, 7)  # and those that complex numbers have not

_known: dict[tuple[Any, Any], Operation] = {}


class Operation:
    """One operation: `code` of the engine (-1: it has none), and functions that do it.

    `divides`: it may be done in parts and in any order; else on the whole, in the order of the
    ranks. `predefined`: its work on arrays is not a function of the program's, and can be tried.
    """

    def __init__(
        self,
        op: Any,
        name: str,
        code: int,
        on_objects: Callable[[Any, Any], Any],
        divides: bool,
        on_arrays: Callable[[Any, Any], Any] | None = None,
        predefined: bool = False,
    ) -> None:
        self.op, self.name, self.code, self.on_objects = op, name, code, on_objects
        self.divides, self._predefined = divides, predefined or on_arrays is None
        self._on_arrays = on_arrays
        self._folders: dict[Any, Folder] = {}

    def native(self, kind: str) -> tuple[int, int] | None:
        """Return the engine's codes for elements of this kind ("f8"), or None."""
        if self.code < 0 or kind not in _TYPES:
            return None
        if (kind[0] == "f" and self.code in _WHOLE_ONLY) or (
            kind[0] == "c" and self.code in _ORDERED_ONLY
        ):
            return None
        return self.code, _TYPES[kind]

    def folder(self, function: str, dtype: Any, shape: tuple[int, ...]) -> Folder:
        """Return what folds memory that holds arrays of this dtype; whole ones get the shape.

        TypeError if NumPy has no such operation on them, or one that gives what they cannot hold.
        """
        key = (dtype, None if self.divides else shape)
        if key not in self._folders:
            self._folders[key] = self._made(function, dtype, key[1])
        return self._folders[key]

    def _made(self, function: str, dtype: Any, shape: tuple[int, ...] | None) -> Folder:
        import numpy

        combine: Any = self._on_arrays or getattr(numpy, _UFUNCS[self.code])
        direct = self._predefined and _is_ufunc(combine)  # it writes where the result is to be
        if self._predefined:
            nothing = numpy.zeros(0, dtype)  # its type is enough
            try:
                gives = combine(nothing, nothing).dtype
            except TypeError:
                raise TypeError(
                    f"{function}: there is no {self.name} of {dtype}; give another operation, or a "
                    "function of two arrays"
                ) from None
            if not _holds(dtype, gives):
                raise TypeError(
                    f"{function}: {self.name} of {dtype} is {gives}, which an array of {dtype} "
                    "cannot hold; give an array of that type, or another operation"
                )
            direct = direct and not gives.hasobject

        return Folder(combine, direct, dtype, shape)


class Folder:
    """Folds memory that holds arrays of one type."""

    def __init__(self, combine: Any, direct: bool, dtype: Any, shape: Any) -> None:
        self._combine, self._direct, self._dtype, self._shape = combine, direct, dtype, shape

    def array(self, memory: memoryview) -> Any:
        """Return the array that memory holds."""
        import numpy

        array = numpy.frombuffer(memory, self._dtype)
        return array if self._shape is None else array.reshape(self._shape)

    def fold(self, into: Any, a: Any, b: Any) -> None:
        """Fold two arrays into one, which may be one of them."""
        if self._direct:
            self._combine(a, b, out=into)
        else:
            folded = self._combine(a, b)
            if folded is None:  # NumPy would make it something that is not a number
                raise TypeError("the operation has returned None; it returns what it has folded")
            into[...] = folded

    def __call__(self, where: memoryview, left: memoryview, right: memoryview) -> None:
        """Fold what two pieces of memory hold into a third, which may be one of them."""
        self.fold(*map(self.array, (where, left, right)))


def _holds(dtype: Any, gives: Any) -> bool:
    """Return whether an array can hold what an operation gives: no text is cut off, for one.

    Truth values are numbers, and neither dates nor text.
    """
    import numpy

    if gives.hasobject:  # a function in Python that is called for each element
        return True
    if dtype.kind in "biufc":
        return bool(numpy.can_cast(gives, dtype, "safe"))
    return bool(gives.kind == dtype.kind and gives.itemsize <= dtype.itemsize)


def operation_of(op: Any, function: str, commutative: bool | None = None) -> Operation:
    """Return what `op` means; TypeError or ValueError for what is not an operation."""
    try:
        found = _known.get((op, commutative))
    except TypeError:  # not hashable
        return _made(op, function, commutative)
    if found is None:
        if len(_known) >= 256:  # of functions that are made anew each time
            _known.clear()
        found = _known[op, commutative] = _made(op, function, commutative)
    return found


def _made(op: Any, function: str, commutative: bool | None) -> Operation:
    code, name = -1, ""
    if isinstance(op, str):
        if op not in _NAMES:
            raise ValueError(
                f"{function}: there is no operation {op!r}; give one of {', '.join(_NAMES)}, a "
                "NumPy ufunc, an MPI.Op or a function of two arguments"
            )
        code, name = _NAMES.index(op), op
    elif _is_mpi(op):
        return _from_mpi(op, commutative)
    elif _is_ufunc(op):
        name = op.__name__
        if op.nin != 2 or op.nout != 1:
            raise TypeError(
                f"{function}: the ufunc {name} takes {op.nin} and gives {op.nout}; an operation "
                "makes one of two"
            )
        if name not in _UFUNCS:
            # Operations on whole arrays depend on their shape.
            return Operation(op, name, -1, op, commutative is True, op, op.signature is None)
        code = _UFUNCS.index(name)
    elif not callable(op):
        raise TypeError(
            f"{function}: {op!r} is not an operation; give a name as 'sum', a NumPy ufunc, an "
            "MPI.Op or a function of two arguments"
        )
    if code >= 0:
        return Operation(op, _NAMES[code], code, _on_objects(code), commutative is not False)
    name = getattr(op, "__qualname__", type(op).__name__)
    return Operation(op, name, -1, op, commutative is True, op)


def _on_objects(code: int) -> Callable[[Any, Any], Any]:
    """Return what a name means for objects, and for arrays of them: element by element."""
    plain = _ON_OBJECTS[code]

    def on_objects(left: Any, right: Any) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(left, numpy.ndarray):
            return getattr(numpy, _UFUNCS[code])(left, right)
        return plain(left, right)

    return on_objects


def _is_ufunc(op: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(op, numpy.ufunc)


def _is_mpi(op: Any) -> bool:
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and isinstance(op, mpi.Op)


def _from_mpi(op: Any, commutative: bool | None) -> Operation:
    mpi = sys.modules["mpi4py.MPI"]
    for code, name in enumerate(_MPI):
        if op == getattr(mpi, name):
            return Operation(op, _NAMES[code], code, _on_objects(code), commutative is not False)

    def on_arrays(left: Any, right: Any) -> Any:
        result = right.copy()
        op.Reduce_local(left, result)
        return result

    divides = op.Is_commutative() if commutative is None else commutative
    for name, by_numpy in _MPI_ALONE:
        if op == getattr(mpi, name):
            return Operation(op, f"MPI.{name}", -1, op, divides, by_numpy, predefined=True)
    return Operation(op, "MPI.Op", -1, op, divides, on_arrays)


def _placed(sign: int) -> Callable[[Any, Any], Any]:
    """Return what chooses of two arrays of pairs (value, place) the pairs with the larger value.

    The smaller one for sign -1; of equal ones that with the lower place (MPI 4.1, section 6.9.4).
    """

    def choose(left: Any, right: Any) -> Any:
        import numpy

        names = left.dtype.names or ()
        if len(names) != 2:
            raise TypeError("no pairs")
        (a, at), (b, bt) = ([pairs[name] for name in names] for pairs in (left, right))
        better = (a > b) if sign > 0 else (a < b)
        return numpy.where(better | ((a == b) & (at <= bt)), left, right)

    return choose


def _for_windows(left: Any, right: Any) -> Any:
    raise TypeError("for windows only")


_MPI_ALONE = (
    ("MAXLOC", _placed(1)), ("MINLOC", _placed(-1)), ("REPLACE", _for_windows),
    ("NO_OP", _for_windows),
)  # fmt: skip
