"""Arguments of a program in a form that can be sent: types that `wire_format` knows."""

from __future__ import annotations

import os
from operator import index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def text(given: Any) -> str:
    """Return a text, or a path, as a str and no subclass of it; TypeError for what is none.

    Such are NumPy's strings, and the `__file__` of a program in a debugger.
    """
    path = os.fspath(given)
    if not isinstance(path, str):
        raise TypeError(f"{given!r:.60} is not text")
    return str.__str__(path)


def number(given: Any) -> int:
    """Return a whole number as an int and no subclass of it; TypeError for what is none."""
    return int(index(given))
