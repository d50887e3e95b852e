"""Overloads for type checkers, without `typing` in the memory of programs."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import overload as overload
else:

    def overload(function):
        """Return it; the definition that follows takes its place."""
        return function
