"""Classes in place of mpi4py's, whose objects are still made by mpi4py itself in places."""

from typing import Any


class Family(type):
    """The type of a class of ours: mpi4py's own objects are instances of it, too.

    Classes that programs derive from ours are ordinary ones.
    """

    def __instancecheck__(cls, thing: Any) -> bool:
        original = cls.__dict__.get("_original")
        if original is not None:
            return isinstance(thing, original)
        return super().__instancecheck__(thing)

    def __subclasscheck__(cls, other: type) -> bool:
        original = cls.__dict__.get("_original")
        if original is not None:
            return issubclass(other, original)
        return super().__subclasscheck__(other)


def new(cls: type, *given: Any) -> Any:
    """Make an object as the C type does whose memory layout a class of ours has."""
    kind = cls
    while isinstance(kind, Family):
        kind = kind.__base__  # type: ignore[assignment]
    return kind.__new__(cls, *given)
