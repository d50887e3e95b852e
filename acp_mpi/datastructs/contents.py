"""All that a container holds as one array, and back: what is kept of it in a file."""

from __future__ import annotations

import pickle
from typing import Any

import numpy

from acp_mpi.datastructs.container import Container
from acp_mpi.datastructs.counter import Counter
from acp_mpi.datastructs.elements import dtype_of, pack_many
from acp_mpi.datastructs.hashed import Hashed
from acp_mpi.datastructs.list import List
from acp_mpi.datastructs.map import Map
from acp_mpi.datastructs.multiset import MultiSet
from acp_mpi.datastructs.sequence import Sequence
from acp_mpi.engine import _engine


def dtype_of_contents(container: Container) -> Any:
    """Return the type of the array that `contents_of` returns; None: a pickle, as bytes.

    Keys with values are a structure. TypeError for a container without contents, as a workspace.
    """
    if isinstance(container, Counter):
        return numpy.dtype("q")
    if isinstance(container, Sequence | List):
        element: _engine.Element = container._element
        return dtype_of(element) if element.width or isinstance(container, Sequence) else None
    if not isinstance(container, Hashed):
        raise TypeError(f"{container!r:.60} cannot be read as a whole; give the bytes themselves")
    keys, values = container._key_codec.element, container._value_codec.element
    if keys is None or values is None:
        return None
    if not values.width:
        return dtype_of(keys)
    return numpy.dtype([("key", dtype_of(keys)), ("value", dtype_of(values))])


def contents_of(container: Any) -> Any:
    """Return all that it holds, as an array, or as a pickle in an array of bytes."""
    kind = dtype_of_contents(container)
    if isinstance(container, Counter):
        return numpy.array([container.read()], kind)
    if kind is None:
        whole = dict(container.items()) if isinstance(container, Map | MultiSet) else [*container]
        return numpy.frombuffer(bytearray(pickle.dumps(whole, 5)), "u1")
    if not isinstance(container, Hashed):
        values = container[:] if isinstance(container, Sequence) else [*container]
        return _packed(container._element, values, kind)
    if container._inlined:
        return _in_slots(container, kind)
    if kind.names != ("key", "value") or not isinstance(container, Map | MultiSet):
        return _packed(container._key_codec.element, [*container], kind)
    pairs = list(container.items())
    array = numpy.empty(len(pairs), kind)
    for i, codec in enumerate((container._key_codec, container._value_codec)):
        name = kind.names[i]
        array[name] = _packed(codec.element, [pair[i] for pair in pairs], kind[name])
    return array


def _in_slots(container: Hashed[Any, Any], kind: Any) -> Any:
    """Return the same of elements that stand in the slots of tables: no element is a Python one."""
    elements: list[Any] = [container._key_codec.element, container._value_codec.element]
    formats = [dtype_of(element) for element in elements]
    words = [-(-element.width // 8) * 8 for element in elements]
    row = numpy.dtype(
        {
            "names": ["key", "value"], "formats": formats, "offsets": [0, words[0]],
            "itemsize": sum(words),
        }
    )  # fmt: skip
    array, at = numpy.empty(len(container), kind), 0
    for data in container._rows():
        rows = numpy.frombuffer(data, row)
        if at + len(rows) > len(array):  # others put in more meanwhile
            array = numpy.concatenate([array[:at], numpy.empty(at + len(rows), kind)])
        there, at = array[at : at + len(rows)], at + len(rows)
        if row == kind:
            there.view("u1")[:] = rows.view("u1")  # NumPy copies structures by the field
        elif elements[1].width:
            for name in kind.names:
                there[name] = rows[name]
        else:
            there[:] = rows["key"]
    return array[:at]


def _packed(element: Any, values: Any, kind: Any) -> Any:
    count, data = pack_many(element, values, "contents")
    array = numpy.empty(count, kind)
    array.view("u1")[:] = numpy.frombuffer(data, "u1")
    return array


def put_contents(container: Any, array: Any) -> None:
    """Have it hold what `contents_of` has returned, in place of what it holds.

    A pickle is read: it is to come from a source that may run code here.
    """
    kind = dtype_of_contents(container)
    if isinstance(container, Counter):
        container.reset(int(array[0]))
        return
    whole = pickle.loads(array) if kind is None else array
    if not isinstance(container, Hashed):
        container.assign(whole)
        return
    container.clear()
    container._make_room("update", len(whole))  # in their order a table that grows gets long runs
    if kind is None or kind.names != ("key", "value"):
        container.update(whole)
    elif isinstance(container, Map):
        container.update(*(numpy.ascontiguousarray(whole[name]) for name in kind.names))
    else:
        container.update(dict(zip(whole["key"].tolist(), whole["value"].tolist(), strict=True)))
