"""Places in a vector or deque."""

import operator
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar

if TYPE_CHECKING:
    from acp_mpi.datastructs.sequence_copies import SequenceCopies

T = TypeVar("T")


def steps_of(n: Any) -> int:
    """Return by how many elements a cursor is to advance. TypeError."""
    try:
        return operator.index(n)
    except TypeError:
        text = f"Cursor.advance: {n!r:.60} is not a number of elements; use an int"
        raise TypeError(text) from None


class Cursor(Generic[T]):
    """A place in a vector or deque by its index: before element `index`, or at the end.

    The cursor stays at that index whatever the others do.
    """

    __slots__ = ("index", "sequence")

    def __init__(self, sequence: "SequenceCopies[T]", index: int) -> None:
        self.sequence = sequence
        self.index = index

    @property
    def value(self) -> T:
        """The element. IndexError at the end."""
        return self.sequence.at(self.index)

    @value.setter
    def value(self, value: T) -> None:
        self.sequence[self.index] = value

    @property
    def ga(self) -> int:
        """The address of the element, until the sequence grows or changes before it."""
        return self.sequence._ga_of(self.index)

    def advance(self, n: SupportsIndex = 1) -> "Cursor[T]":
        """Return the cursor `n` elements on, back if negative. IndexError before the first."""
        index = self.index + steps_of(n)
        if index < 0:
            raise IndexError(
                f"Cursor.advance: {n} from index {self.index} is before the first element; see "
                "size()"
            )
        return Cursor(self.sequence, index)

    def distance(self, other: "Cursor[T]") -> int:
        """Return how many elements `other` is further on."""
        if not isinstance(other, Cursor):
            raise TypeError(
                f"Cursor.distance: {other!r:.60} is not a cursor of a vector or deque; begin and "
                "end return one"
            )
        if other.sequence != self.sequence:
            raise ValueError("Cursor.distance: the cursors are of two containers; use one")
        return other.index - self.index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cursor) and (self.sequence, self.index) == (
            other.sequence,
            other.index,
        )

    def __hash__(self) -> int:
        return hash((self.sequence, self.index))

    def __repr__(self) -> str:
        return f"<acp_mpi.Cursor {self.index} of {self.sequence._identity()}>"
