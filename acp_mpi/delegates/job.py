"""A command of a rank, while the delegate has it."""

from __future__ import annotations

from acp_mpi.delegates.frames import DONE, FAILED, portable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from collections.abc import Sequence
    from typing import Any, Protocol

    from acp_mpi.delegates.generations import Item
    from acp_mpi.delegates.memory import Part

    class Client(Protocol):
        """A rank, as the delegate sees it."""

        def answer(self, number: int, kind: int, x: Any) -> None:
            """Tell it what has become of a command."""


_OF_FILES = frozenset(
    ("load", "save", "commit", "drop", "checkpoint", "abandon", "wholes", "check", "fill")
)


class Job:
    """A command under way."""

    path: str | None = None
    before: Sequence[Job] = ()
    source: Sequence[Part | Item] = ()  # of what may be copied
    copy: mmap.mmap | None = None
    data: list[memoryview] | None = None  # of it, by part
    held = 0  # bytes of `data`, or to come
    given: bytes | int | None = None  # to a collective
    fired: int | None = None  # what a kernel has stored to begin it
    over = False
    waits = False  # for other ranks

    def __init__(self, client: Client, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        self.client, self.number, self.name, self.arguments = client, number, name, arguments
        if name in _OF_FILES:
            self.path = arguments[0]
        if name == "save" and arguments[2]:
            self.source = [arguments[1]]
        elif name == "checkpoint":
            self.source = arguments[1].items

    def lane(self, memory: int) -> str | None:
        """Return which thread of the server works on it first; None: none does."""
        if self.path is None:
            return "call" if self.name == "call" else None
        return "copy" if self.source and self.size <= memory else "files"

    def answer(self, kind: int, result: Any) -> None:
        """Tell the rank what has become of it."""
        if kind == DONE and self.fired is not None:
            result = self.fired, result
        try:
            self.client.answer(self.number, kind, result)
        except Exception as error:  # it cannot be pickled, or is too long
            self.client.answer(self.number, FAILED, portable(error))

    @property
    def size(self) -> int:
        """Bytes of what may be copied."""
        return sum(part.nbytes for part in self.source)


class Nobody:
    """Who commands what no rank does."""

    def answer(self, number: int, kind: int, x: Any) -> None:
        """Do nothing: nobody hears it."""
