"""The part of a group that has come: while it comes, and as the rendezvous tells it."""

from __future__ import annotations

from acp_mpi.util.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from acp_mpi.job.rendezvous.announcement import Build


class Arrival(Record):
    """The part of a group that has come: `ranks`, and the origin, host and process of each.

    `name` is "" and the others are None as long as they are not known; `failure`: why the rest
    will not come.
    """

    __slots__ = ("name", "size", "has_mpi", "ranks", "origins", "failure")  # noqa: RUF023

    def __init__(
        self,
        name: str,
        size: int | None,
        has_mpi: bool | None,
        ranks: tuple[int, ...] = (),
        origins: tuple[str, ...] = (),
        failure: str | None = None,
    ) -> None:
        self.name, self.size, self.has_mpi = name, size, has_mpi
        self.ranks, self.origins, self.failure = ranks, origins, failure

    @property
    def complete(self) -> bool:
        """Whether all its ranks have come."""
        return len(self.ranks) == self.size


class Coming:
    """A group while it comes."""

    def __init__(self, size: int, has_mpi: bool, build: Build) -> None:
        self.size, self.has_mpi, self.build = size, has_mpi, build
        self.rows: dict[int, bytes] = {}
        self.origins: dict[int, str] = {}

    @property
    def complete(self) -> bool:
        """Whether all its ranks have come."""
        return len(self.rows) == self.size

    @property
    def absent(self) -> Iterable[int]:
        """The ranks that have not come."""
        return (rank for rank in range(self.size) if rank not in self.rows)


def places(origins: Mapping[int, str], most: int = 4) -> str:
    """Say where ranks came from, a few of many."""
    different = list(dict.fromkeys(origins[rank] for rank in sorted(origins)))
    more = len(different) - most
    return ", ".join(different[:most]) + (f" and {more} more" if more > 0 else "")
