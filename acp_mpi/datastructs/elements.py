"""The elements of a container: plain types, raw bytes, any NumPy type.

Plain types and raw bytes do without NumPy.
"""

import ast
import contextlib
import functools
import struct
from collections.abc import Iterable
from typing import Any

from acp_mpi.datastructs.numpy_elements import fitted, numpy_in_use, of_numpy
from acp_mpi.engine import _engine
from acp_mpi.rma.buffers import hosted

PLAIN = "bBhHiIqQfd?"
_NAMES: dict[Any, str] = {int: "q", float: "d", bool: "?"}
_LETTERS = {
    "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q",
    "f4": "f", "f8": "d", "b1": "?",
}  # fmt: skip


def _bytes_of(value: Any) -> bytes:
    """Return the bytes of a buffer, or of an iterable of small ints."""
    try:
        return bytes(memoryview(hosted(value, "element")))
    except (TypeError, ValueError):  # ValueError: a type of NumPy's that no buffer can have
        return bytes(value)


def _raw(width: int) -> _engine.Element:
    def pack(value: Any) -> bytes:
        try:
            data = None if isinstance(value, int) else _bytes_of(value)  # bytes(13): 13 zeros
        except TypeError:
            data = None
        if data is None:
            raise TypeError(f"{value!r:.60} is not {width} bytes; give a buffer")
        if len(data) != width:
            raise ValueError(f"an element has {width} bytes, not {len(data)}; give as many")
        return data

    return _engine.Element(width, b"V%d" % width, "", pack, bytes)


def _plain_or_raw(text: str) -> _engine.Element | None:
    if len(text) == 1 and text in PLAIN:
        return _engine.Element(struct.calcsize(text), text.encode(), text, None, None)
    if text[:1] == "V" and text.isascii() and text[1:].isdigit() and int(text[1:]) < 2**31:
        return _raw(int(text[1:]))  # more than that is not a type of NumPy's either
    return None


def element_of(dtype: Any, function: str) -> _engine.Element:
    """Return what elements of `dtype` are: int, float, bool, a letter of the struct module, "V13"
    for 13 raw bytes, or anything that numpy.dtype takes and that has a size and no dimensions.
    """
    if isinstance(dtype, _engine.Element):
        return dtype
    text = _NAMES.get(dtype, dtype) if isinstance(dtype, type | str) else None
    if isinstance(text, str) and (found := _plain_or_raw(text)):
        return found
    if dtype is None:  # which NumPy takes for float64
        raise TypeError(f"{function}: None is not a type of elements; use float, say")
    import numpy

    try:
        kind = numpy.dtype(dtype)
    except (TypeError, ValueError) as error:
        # In the place of a type elements may have been given.
        more = ", and give elements behind it" if function in ("Vector", "Deque") else ""
        raise TypeError(
            f"{function}: {dtype!r:.60} is not a type of elements ({error}); use float, say{more}"
        ) from None
    if kind.kind in "SU" and not kind.itemsize:
        raise TypeError(
            f"{function}: {dtype!r} is text of no length; use 'S16' for up to 16 bytes, or object "
            "in a List or Map"
        )
    if kind.subdtype:
        raise TypeError(
            f"{function}: elements of {dtype!r} would be arrays; use {kind.base.str!r} and several "
            "elements, or a structure with such a field"
        )
    if kind.hasobject:
        raise TypeError(
            f"{function}: {dtype!r:.60} holds Python objects, which have no meaning on other "
            "ranks; use a type of fixed size, or object in a List or Map"
        )
    if kind.isnative and (letter := _LETTERS.get(kind.str[1:])):
        return element_of(letter, function)
    if kind.kind == "V" and kind.fields is None and kind.subdtype is None:
        return _raw(kind.itemsize)
    return of_numpy(kind, element_of)


@functools.lru_cache(256)
def element_from(note: bytes) -> _engine.Element:
    """Return the elements that another rank has described."""
    text = note.decode()
    if found := _plain_or_raw(text):
        return found
    import numpy

    return of_numpy(numpy.lib.format.descr_to_dtype(ast.literal_eval(text)), element_of)


def dtype_of(element: _engine.Element) -> Any:
    """Return the NumPy type of such elements."""
    import numpy

    text = element.note.decode()
    if _plain_or_raw(text):
        return numpy.dtype(text)
    return numpy.lib.format.descr_to_dtype(ast.literal_eval(text))


def pack_many(element: _engine.Element, values: Any, function: str) -> tuple[int, Any]:
    """Return how many elements `values` are, and their bytes."""
    letter = element.note.decode()
    values = hosted(values, function)
    if hasattr(values, "__array_interface__") and (numpy := numpy_in_use()) is not None:
        array = fitted(numpy.asarray(values), dtype_of(element), f"{function}: values").reshape(-1)
        return len(array), memoryview(array.view("u1")) if array.nbytes else b""
    if not isinstance(values, Iterable) and not hasattr(values, "__getitem__"):
        raise TypeError(f"{function}: {type(values).__name__} is not iterable; give many values")
    view = _view(values)
    if (
        view is not None
        and view.c_contiguous
        and (view.format == letter or (letter[0] == "V" and view.format == "B"))
    ):
        return _counted(element, view.cast("B"), function)
    values = _listed(values, view, function)
    if element.letter not in ("", "?"):  # of "?" struct takes the truth of any value
        with contextlib.suppress(struct.error):  # below it is said of which value
            return len(values), struct.pack(f"{len(values)}{letter}", *values)
    return len(values), b"".join([element.packed(value, function) for value in values])


def _view(values: Any) -> memoryview | None:
    try:
        return memoryview(values)
    except TypeError:
        return None


def _listed(values: Any, view: memoryview | None, function: str) -> list[Any]:
    """Return the values of an iterable; of a buffer of other dimensions all, as of an array."""
    if view is None:
        return list(values)
    try:
        if view.ndim != 1:
            values = memoryview(view.tobytes()).cast(view.format)  # type: ignore[call-overload]
        return list(values)
    except (NotImplementedError, ValueError) as error:  # of memoryview
        raise TypeError(
            f"{function}: the numbers in a buffer of format {view.format!r} cannot be read "
            f"({error}); give an array, or a list of them"
        ) from error


def _counted(element: _engine.Element, data: memoryview, function: str) -> tuple[int, Any]:
    if not element.width or data.nbytes % element.width:
        raise ValueError(
            f"{function}: {data.nbytes} bytes are not a whole number of elements of {element.width}"
            "; give as many as there are in some elements"
        )
    return data.nbytes // element.width, data


def unpack_many(element: _engine.Element, data: bytearray, count: int) -> list[Any]:
    """Return the values of the bytes of `count` elements."""
    if element.letter:
        return list(struct.unpack(f"{count}{element.letter}", data))
    width = element.width
    return [element.unpacked(bytes(data[i * width : (i + 1) * width])) for i in range(count)]


def array_of(element: _engine.Element, data: bytearray, count: int) -> Any:
    """Return the elements as a NumPy array; as a memoryview where NumPy has not been imported."""
    if (numpy := numpy_in_use()) is not None:
        if not element.width:
            return numpy.empty(count, dtype_of(element))
        return numpy.frombuffer(data, dtype_of(element))
    view: Any = memoryview(data)
    return view.cast(element.letter or "B")


def some_of(element: _engine.Element, data: bytearray, count: int, index: slice) -> Any:
    """Return those elements that a slice means, whatever its step, as `array_of`."""
    if element.letter or numpy_in_use() is not None:
        return array_of(element, data, count)[index]
    width = element.width  # of raw bytes, which as a memoryview are not elements
    chosen = (data[i * width : (i + 1) * width] for i in range(count)[index])
    return array_of(element, bytearray().join(chosen), count)
