"""Keys and values as bytes, one by one and in arrays."""

from collections.abc import Iterator
from typing import Any, SupportsIndex

from acp_mpi.datastructs.container import count_of
from acp_mpi.datastructs.elements import dtype_of, element_from, element_of
from acp_mpi.datastructs.numpy_elements import fitted, numpy_in_use
from acp_mpi.engine import _engine

OBJECT = b"object"
RAW = b"bytes"


def codec_of(what: Any, is_key: bool, function: str) -> _engine.Codec:
    """Return how keys, or values, of a type become bytes.

    str, and bytes as keys, are objects here; values that are bytes stay as they are.
    """
    if what is bytes and not is_key:
        return _engine.Codec(None, is_key, raw=True)
    is_object = isinstance(what, type) and what in (object, str, bytes)
    if is_object or what == "object":
        return _engine.Codec(None, is_key)
    element = element_of(what, function)
    if not is_key:
        return _engine.Codec(element, is_key)
    if not (element.letter or element.note[:1] == b"V") and _has_gaps(dtype_of(element)):
        raise TypeError(
            f"{function}: keys of {what!r:.60} have bytes that mean nothing, in which equal ones "
            "may differ; use a packed structure, or float64"
        )
    return _engine.Codec(_of_equals(element), is_key)


def _has_gaps(dtype: Any) -> bool:
    if dtype.subdtype:
        return _has_gaps(dtype.base)
    if dtype.names is None:
        return dtype.char in "gG"  # 10 bytes of 16
    fields = [field[0] for field in dtype.fields.values()]
    whole = sum(field.itemsize for field in fields) == dtype.itemsize
    return not whole or any(map(_has_gaps, fields))


def _of_equals(element: _engine.Element) -> _engine.Element:
    """Return such an element that gives keys which are equal the same bytes."""
    if element.letter or element.note[:1] == b"V":  # without NumPy
        return element
    dtype = dtype_of(element)
    if dtype.kind not in "fcV":
        return element

    def pack(value: Any) -> bytes:
        import numpy

        cell: Any = numpy.frombuffer(element.packed(value), dtype)
        return bytes(_canonical(cell).tobytes())

    return _engine.Element(element.width, element.note, "", pack, element.unpacked)


def _canonical(array: Any) -> Any:
    """Return keys with one zero and one NaN, in their fields as well."""
    import numpy

    if array.dtype.names is not None:
        array = array.copy()
        for name in array.dtype.names:
            array[name] = _canonical(array[name])
    if array.dtype.kind not in "fc":
        return array
    array = (array + array.dtype.type(0)).astype(array.dtype, copy=False)  # -0.0 is 0.0
    for part in (array.real, array.imag) if array.dtype.kind == "c" else (array,):
        part[numpy.isnan(part)] = numpy.nan
    return array


def codec_from(note: bytes, is_key: bool) -> _engine.Codec:
    """Return the same from what another rank has noted."""
    if note in (OBJECT, RAW):
        return _engine.Codec(None, is_key, raw=note == RAW)
    element = element_from(note)
    return _engine.Codec(_of_equals(element) if is_key else element, is_key)


def note_of(codec: _engine.Codec) -> bytes:
    """Return what `codec_from` takes."""
    if codec.element is not None:
        return codec.element.note
    return RAW if codec.raw else OBJECT


def size_at(codec: _engine.Codec, size: SupportsIndex | None, function: str) -> int:
    """Return how many bytes a key, or value, at an address has; `size`: how many were said."""
    what, width = "key" if codec.is_key else "value", codec.size
    if size is None and codec.element is None:
        raise TypeError(f"{function}: a {what} of this map has any size; give its size")
    if codec.element is not None and size not in (None, width):
        raise ValueError(f"{function}: a {what} has {width} bytes, not {size}; leave it out")
    return width if size is None else count_of(function, size, of="bytes")


def key_at(
    codec: _engine.Codec, ga: SupportsIndex, size: SupportsIndex | None, function: str
) -> Any:
    """Return the key with its bytes at an address; those of object keys are a bytes object."""
    data = bytearray(size_at(codec, size, function))
    if data:
        _engine.get_all(function, [(ga, data)])
    return bytes(data) if codec.element is None else codec.element.unpacked(bytes(data))


def batches(pairs: Iterator[tuple[Any, Any]]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield lists of keys and of values."""
    keys: list[Any] = []
    values: list[Any] = []
    for key, value in pairs:
        keys.append(key)
        values.append(value)
        if len(keys) == 4096:
            yield keys, values
            keys, values = [], []
    if keys:
        yield keys, values


def array_dtype(codec: _engine.Codec) -> Any:
    """Return NumPy's type for what the codec is for; None: objects, nothing, or without NumPy."""
    if codec.element is None or not codec.element.width or numpy_in_use() is None:
        return None
    return dtype_of(codec.element)


def as_array(codec: _engine.Codec, items: Any, what: str) -> Any:
    """Return `items` as a contiguous array of the codec's type, None where a list will do.

    A list will do for objects, in programs that do not use NumPy, and for lists of other things
    than numbers.
    """
    dtype = array_dtype(codec)
    if dtype is None:
        return None
    import numpy

    is_array = isinstance(items, numpy.ndarray)
    if not codec.letter and not is_array:
        return None
    given = numpy.asarray(items)
    if given.dtype.kind == "O" and not given.shape:  # so NumPy takes sets, views and generators
        items = list(items)
        given = numpy.asarray(items)
    # Of ints on both sides of 2**63 NumPy makes floats, and of what is not a number one, if it can.
    if given.dtype.kind == "O" or (not is_array and given.dtype.kind + dtype.kind in ("fi", "fu")):
        element: Any = codec.element
        each = numpy.array(items, object).reshape(-1)
        array = numpy.frombuffer(b"".join([element.packed(x, what) for x in each]), dtype)
    elif given.size == 0:
        array = numpy.empty(0, dtype)
    else:
        array = fitted(given, dtype, what).reshape(-1)
    return _canonical(array) if codec.is_key else array


def bytes_of(array: Any) -> Any:
    """Return a contiguous array as a buffer of bytes, which can be written to if that can."""
    return array.view("u1")
