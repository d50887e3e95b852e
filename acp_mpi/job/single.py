"""A process without MPI, which speaks for itself."""

from __future__ import annotations

from acp_mpi.engine import _engine
from acp_mpi.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from acp_mpi.config import Settings


class Lone:
    """A process that speaks for itself, and keeps a table of its own."""

    nodes = 1
    wide = False

    def __init__(self, size: int) -> None:
        self.most = size  # it takes its whole group to be on this node

    def fail(self, error: Exception | None, first: int) -> NoReturn:
        """Raise `error`."""
        assert error is not None  # no other process could have one
        raise error

    def gather(self, row: bytes) -> bytes:
        """Return the rows of those that this process speaks for."""
        return row

    def enter(self, rows: memoryview, count: int, slot: int, willing: bool) -> tuple[bool, bool]:
        """Let the engine know all `count` members; return whether this one is willing, or not."""
        _engine.add_rows(0, rows)
        _engine.join(count, slot)
        return willing, not willing


class Alone:
    """A process without MPI: it speaks for itself."""

    has_mpi = False
    comm = None

    def __init__(self, settings: Settings) -> None:
        self.size = settings.group_size
        self.rank = settings.group_rank
        if not 0 <= self.rank < self.size:
            raise Error(
                f"init: ACP_GROUP_RANK={self.rank} is not in 0 to {self.size - 1} "
                f"(ACP_GROUP_SIZE={self.size})"
            )
        if self.size > 1 and settings.rendezvous is None and settings.multirun is None:
            raise Error(
                f"init: ACP_GROUP_SIZE={self.size} processes without MPI meet at a rendezvous; "
                "set ACP_RENDEZVOUS and ACP_SECRET_FILE"
            )

    def company(self, node: int, host: int, links: str) -> Lone:
        """Return the communicator in which this process learns of the members: none."""
        return Lone(self.size)

    def from_first(self, make: Callable[[], Any]) -> Any:
        """Return what the first of these processes makes."""
        return make()

    def first_rank(self) -> int:
        """Return the group rank of the first process spoken for."""
        return self.rank

    def before_finalize(self, action: Callable[[], None]) -> None:
        """Without MPI nothing ends it but the program."""

    def abort(self, code: int) -> None:
        """Leave the rest of the group alone: nothing connects it but acp_mpi."""

    def free(self) -> None:
        """Nothing to give back."""
