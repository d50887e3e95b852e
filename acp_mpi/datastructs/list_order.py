"""The parts of an order: keys, and two sorted rows that become one."""

import functools
from collections.abc import Callable
from typing import Any


def comparing(function: str, compare: Any) -> Callable[[Any, Any], int]:
    """Return a function like `compare` that returns -1, 0 or 1. TypeError names `function`."""
    if not callable(compare):
        raise TypeError(
            f"{function}: compare {compare!r:.60} is not a function; give one of two values"
        )

    def compared(a: Any, b: Any) -> int:
        result = compare(a, b)
        try:
            return int(result > 0) - int(result < 0)
        except TypeError:
            raise TypeError(
                f"{function}: compare returned {result!r:.60}, which is not a number; return one "
                "below 0 if the first value goes first, 0 if they are equal"
            ) from None

    return compared


def keys_of(function: str, values: list[Any], key: Any, compare: Any) -> list[Any]:
    """Return what the values are compared by."""
    if compare is not None:
        if key is not None:
            raise TypeError(f"{function}: key and compare were given; use one of them")
        key = functools.cmp_to_key(comparing(function, compare))
    elif key is not None and not callable(key):
        raise TypeError(f"{function}: key {key!r:.60} is not a function; give one of a value")
    return list(values) if key is None else [key(value) for value in values]


def ordered(function: str, keys: list[Any], compare: Any, reverse: bool) -> list[int]:
    """Return the order that sorts `keys`, which came of `compare` if that is not None."""
    try:
        return sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)
    except TypeError as error:
        raise _not_comparable(function, compare, error) from error


def merged(function: str, keys: list[Any], here: int, compare: Any) -> list[int]:
    """Return the order in which two sorted rows, one behind the other, become one."""
    order: list[int] = []
    left, right = 0, here
    try:
        while left < here and right < len(keys):
            if keys[right] < keys[left]:
                order.append(right)
                right += 1
            else:
                order.append(left)
                left += 1
    except TypeError as error:
        raise _not_comparable(function, compare, error) from error
    return order + list(range(left, here)) + list(range(right, len(keys)))


def _not_comparable(function: str, compare: Any, error: TypeError) -> TypeError:
    if compare is not None:  # the error is of the caller's function
        return error
    return TypeError(
        f"{function}: some elements cannot be compared ({error}); give a key= or compare= that "
        "works for all of them"
    )
