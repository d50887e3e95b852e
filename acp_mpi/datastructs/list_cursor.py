"""A place in a list: an element, or the end."""

from typing import TYPE_CHECKING, Any

from acp_mpi.engine import _engine

if TYPE_CHECKING:
    from acp_mpi.datastructs.list_writing import ListWriting

END = (0, 0)


class Gone:
    """In place of a value: its element was taken out before it could be fetched."""


GONE = Gone()


class ListCursor:
    """An element of a list, or the place behind the last one.

    It stays at its element, whatever is put in, taken out or reordered around it. Once the element
    was taken out of the list, using the cursor raises AddressError.
    """

    __slots__ = ("id", "list")

    def __init__(self, of: "ListWriting", id: tuple[int, int]) -> None:
        self.list = of
        self.id = id

    def _batch(self, name: str) -> _engine.Batch:
        if self.id == END:
            raise IndexError(f"{name}: there is no element at the end; see size()")
        batch = self.list.walk(name, 0, 1, _engine.ids_of([self.id]))
        if batch.stale:
            self._raise_stale(name)
        return batch

    def _raise_stale(self, name: str) -> None:
        self.list.step(name, 0, _engine.ids_of([self.id, END]))

    @property
    def value(self) -> Any:
        """The element. IndexError at the end."""
        batch = self._batch("Cursor.value")
        self.list._fetch("Cursor.value", batch)
        if batch.values[0] is GONE:
            self._raise_stale("Cursor.value")
        return batch.values[0]

    @property
    def ga(self) -> int:
        """The address of what the element holds, until it is taken out."""
        batch = self._batch("Cursor.ga")
        if batch.elsewhere:
            return batch.elsewhere[0][1]
        return batch.origin + batch.nodes[0] + _engine.node_bytes

    def advance(self, n: int = 1) -> "ListCursor":
        """Return the cursor `n` elements on, back if negative. IndexError past an end."""
        id, left = self.id, n
        while left:
            done, id = self.list.step("Cursor.advance", left, _engine.ids_of([id, END]))
            left -= done
            if not done:
                raise IndexError(
                    f"Cursor.advance: the list ends {abs(left)} before that; see size()"
                )
        return ListCursor(self.list, id)

    def distance(self, other: "ListCursor") -> int:
        """Return how many elements `other` is further on. ValueError if it is not behind."""
        if other.list != self.list:
            raise ValueError("Cursor.distance: the cursors are of two lists; use one")
        total, id = 0, self.id
        while id != other.id:
            done, id = self.list.step("Cursor.distance", 2**62, _engine.ids_of([id, other.id]))
            total += done
            if not done:
                raise ValueError("Cursor.distance: the other is before this one; turn them round")
        return total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListCursor) and (self.list, self.id) == (other.list, other.id)

    def __hash__(self) -> int:
        return hash((self.list, self.id))

    def __repr__(self) -> str:
        return f"<acp_mpi.ListCursor {self.id[0]:#x} of {self.list!r}>"
