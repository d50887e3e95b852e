"""Elements of NumPy's types, one and in arrays: what would lose something on the way is refused.

Nothing here imports NumPy before something of it is there, or asked for.
"""

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

from acp_mpi.engine import _engine
from acp_mpi.rma.buffers import hosted

_ElementOf = Callable[[Any, str], _engine.Element]
_numpy: Any = None  # once all of it is there


def numpy_in_use() -> Any:
    """Return NumPy where the program has imported it, else None."""
    global _numpy
    if _numpy is None and sys.modules.get("numpy") is not None:
        import numpy  # another thread may be in the middle of that: this waits for its end

        _numpy = numpy
    return _numpy


def of_numpy(dtype: Any, element_of: _ElementOf) -> _engine.Element:
    """Return what elements of a type of NumPy's are; those of its fields `element_of` knows."""
    import numpy

    text = repr(numpy.lib.format.dtype_to_descr(dtype))
    pack: Callable[[Any], bytes] = functools.partial(_one, dtype)
    if dtype.names is not None:
        pack = _packer_of_fields(dtype, element_of)

    def unpack(data: bytes) -> Any:
        return numpy.frombuffer(data, dtype, 1)[0].item()

    return _engine.Element(dtype.itemsize, text.encode(), "", pack, unpack)


def _one(dtype: Any, value: Any) -> bytes:
    """Return the bytes of one value of a type without fields."""
    import numpy

    if type(value) is bytes and dtype.kind == "S" and len(value) <= dtype.itemsize:
        return value.ljust(dtype.itemsize, b"\0")
    if dtype.kind in "iu":
        value = _whole(value, dtype)
    try:
        cell = numpy.array(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        kind = type(error) if type(error) in (TypeError, OverflowError) else ValueError
        raise kind(f"{value!r:.60} is not a {dtype} ({error}); convert it first") from error
    if cell.shape:
        raise ValueError(
            f"{value!r:.60} is {cell.size} elements of {dtype}, not one; put them in one by "
            "one, or several by extend; fields stand in a tuple"
        )
    if dtype.kind in "fc" and type(value) not in (int, float, complex):
        if value is None or numpy.asarray(value).dtype.kind not in "biufcO":
            raise TypeError(f"{value!r:.60} is not a number, which {dtype} holds; convert it first")
    elif dtype.kind in "SU":
        given = numpy.asarray(value)
        if given.dtype.kind not in "SU":
            raise TypeError(f"{value!r:.60} is not text, which {dtype} holds; convert it first")
        _whole_text(given, dtype, "an element")
    return bytes(cell.tobytes())


def _packer(dtype: Any, element_of: _ElementOf) -> Callable[[Any], bytes]:
    """Return what makes bytes of what a field of a type is given."""
    import numpy

    if not dtype.subdtype:
        return element_of(dtype, "field").packed
    base, shape = dtype.subdtype
    inner = _packer(numpy.dtype((base, shape[1:])), element_of)

    def pack(value: Any) -> bytes:
        if isinstance(value, list) or (isinstance(value, tuple) and base.names is None):
            if len(value) != shape[0]:
                raise ValueError(f"{value!r:.60} is not a {dtype}; give {shape[0]} values")
            return b"".join(map(inner, value))
        if not isinstance(value, tuple) and (given := numpy.asarray(hosted(value, "field"))).shape:
            row = numpy.empty(shape, base)
            row[...] = fitted(given, base, "values")
            return row.tobytes()
        return inner(value) * int(shape[0])

    return pack


def _packer_of_fields(dtype: Any, element_of: _ElementOf) -> Callable[[Any], bytes]:
    """Return what makes bytes of a tuple: each field is refused what elements of its type are."""
    places = [(dtype.fields[name][1], dtype[name]) for name in dtype.names]
    fields = [(at, at + field.itemsize, _packer(field, element_of)) for at, field in places]

    def pack(value: Any) -> bytes:
        parts = _parts(value)
        if parts is None or len(parts) != len(fields):
            raise ValueError(
                f"{value!r:.60} is not one element of {dtype}; put its {len(fields)} fields in a "
                "tuple"
            )
        data = bytearray(dtype.itemsize)
        for (begin, end, packed), part in zip(fields, parts, strict=True):
            data[begin:end] = packed(part)
        return bytes(data)

    return pack


def _parts(value: Any) -> tuple[Any, ...] | None:
    """Return the fields of a structure; None: it is none."""
    if isinstance(value, tuple):
        return value
    if getattr(getattr(value, "dtype", None), "names", None) is None or value.shape:
        return None
    return tuple(value[name] for name in value.dtype.names)


def _whole(value: Any, dtype: Any) -> int:
    """Return a number as an int that `dtype` has room for: no fraction is lost."""
    import numpy

    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{value!r:.60} is not a whole number, which {dtype} holds; convert it first"
        ) from None
    bounds = numpy.iinfo(dtype)
    if not bounds.min <= number <= bounds.max:
        raise OverflowError(f"{number!r:.60} does not fit into {dtype}; use a type with more room")
    return number


def _whole_text(given: Any, dtype: Any, what: str) -> None:
    """Raise ValueError if `dtype` has no room for all characters of an array of text."""
    import numpy

    if not given.size:
        return
    room = dtype.itemsize // (4 if dtype.kind == "U" else 1)
    most = int(numpy.char.str_len(given).max())
    if most > room:
        raise ValueError(
            f"{what} has {most} characters, and {dtype} has room for {room}; use a longer type, or "
            "cut them first"
        )


def fitted(given: Any, dtype: Any, what: str) -> Any:
    """Return an array as a contiguous one of `dtype`, which has room for all that is in it.

    TypeError, ValueError, OverflowError; they begin with `what`, the name of the values.
    """
    import numpy

    if dtype.kind == "b" and given.dtype.kind in "iuf":
        if not numpy.isin(given, (0, 1)).all():
            raise TypeError(f"{what} are not all 0 or 1, which {dtype} holds; convert them first")
        return numpy.ascontiguousarray(given, dtype)
    whole = dtype.kind in "iu" and given.dtype.kind in "iub"
    text = dtype.kind in "SU"
    if not whole and (
        (text and given.dtype.kind not in "SU")  # NumPy makes text of numbers, as long as it may be
        or not numpy.can_cast(given.dtype, dtype, "same_kind")
    ):
        raise TypeError(f"{what} of {given.dtype} do not fit into {dtype}; convert them first")
    if whole and given.size and not numpy.can_cast(given.dtype, dtype):
        bounds, low, high = numpy.iinfo(dtype), int(given.min()), int(given.max())
        if low < bounds.min or high > bounds.max:
            raise OverflowError(
                f"{what} from {low} to {high} do not all fit into {dtype}; use a larger type"
            )
    if text:
        _whole_text(given, dtype, f"{what}: one")
    if dtype.names is None or given.dtype == dtype:
        return numpy.ascontiguousarray(given, dtype)
    array = numpy.zeros(given.shape, dtype)
    for name, there in zip(dtype.names, given.dtype.names, strict=True):
        array[name] = fitted(given[there], dtype[name].base, what)
    return array
