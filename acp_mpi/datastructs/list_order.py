"""What orders are made of: keys, and two sorted rows that become one."""

import functools
from typing import Any


def keys_of(values: list[Any], key: Any, compare: Any) -> list[Any]:
    """Return what the values are compared by."""
    if compare is not None:
        if key is not None:
            raise TypeError("List: key and compare were given; use one of them")
        key = functools.cmp_to_key(compare)
    return [key(value) for value in values] if key else values


def merged(keys: list[Any], here: int) -> list[int]:
    """Return the order in which two sorted rows, one behind the other, become one."""
    order: list[int] = []
    left, right = 0, here
    while left < here and right < len(keys):
        if keys[right] < keys[left]:
            order.append(right)
            right += 1
        else:
            order.append(left)
            left += 1
    return order + list(range(left, here)) + list(range(right, len(keys)))
