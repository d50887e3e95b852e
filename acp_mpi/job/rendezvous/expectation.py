"""The members a job expects: a number of groups, named groups, or the ranks of a port table."""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.announcement import Announcement
from acp_mpi.job.rendezvous.arrival import Coming
from acp_mpi.job.rendezvous.membership import RANKS_MAX, check_group
from acp_mpi.util.text import ranges

Come: TypeAlias = Mapping[str, Coming]


class Expectation(Protocol):
    """The questions of the roll about the groups of a job."""

    sizes: Mapping[str, int]  # of the groups with names that are known before they come

    def check(self, new: Announcement, come: Come) -> None:
        """Raise Error unless a group without any member so far belongs to the job."""

    def met(self, groups: int, ranks: int) -> bool:
        """Return whether this number of complete groups, with that of ranks, is the whole job."""
        ...

    def order(self, come: Come) -> Iterable[str]:
        """Return the names of the groups in the order of their slots, not of their arrival."""
        ...

    def absent(self, come: Come) -> list[str]:
        """Return the missing groups without any member so far."""
        ...

    def nameless(self, come: Come) -> int:
        """Return the number of missing groups without a name that is known before they come."""
        ...


class Number:
    """A number of groups, in the order of their names."""

    sizes: Mapping[str, int] = {}

    def __init__(self, count: int) -> None:
        if count < 1:
            raise Error(f"a job of {count} groups: expected at least one")
        self._count = count

    def check(self, new: Announcement, come: Come) -> None:
        """Refuse one too many."""
        if len(come) == self._count:
            raise Error(
                f"no more than {self._count} groups belong to this job, and these have "
                f"come: {', '.join(map(repr, come))}"
            )

    def met(self, groups: int, ranks: int) -> bool:
        """Return whether all are there."""
        return groups == self._count

    def order(self, come: Come) -> Iterable[str]:
        """Return the names, sorted: the ranks of a job are the same in every run."""
        return sorted(come)

    def absent(self, come: Come) -> list[str]:
        """Say how many are missing."""
        more = self.nameless(come)
        return [f"{more} more group{'s' * (more > 1)}, not announced yet"] if more else []

    def nameless(self, come: Come) -> int:
        """Return how many have not come."""
        return self._count - len(come)


class Names:
    """Groups of these names and sizes, in this order."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        if not sizes:
            raise Error("a job of 0 groups: expected at least one")
        for name, size in sizes.items():
            check_group(name, size)
        self.sizes: Mapping[str, int] = dict(sizes)

    def check(self, new: Announcement, come: Come) -> None:
        """Refuse other names and other sizes."""
        if new.name not in self.sizes:
            raise Error(
                f"no group {new.name!r} belongs to this job: expected "
                f"{', '.join(map(repr, self.sizes))}"
            )
        if new.size != self.sizes[new.name]:
            raise Error(
                f"group {new.name!r} comes with {new.size} ranks: expected {self.sizes[new.name]}"
            )

    def met(self, groups: int, ranks: int) -> bool:
        """Return whether all are there."""
        return groups == len(self.sizes)

    def order(self, come: Come) -> Iterable[str]:
        """Return the names as given."""
        return self.sizes

    def absent(self, come: Come) -> list[str]:
        """Say which are missing."""
        return [
            f"all {size} ranks of group {name!r}"
            for name, size in self.sizes.items()
            if name not in come
        ]

    def nameless(self, come: Come) -> int:
        """Return 0: all have names."""
        return 0


class Slots:
    """Groups that fill a number of slots without gaps; each has its first slot for a name."""

    sizes: Mapping[str, int] = {}

    def __init__(self, count: int) -> None:
        if not 0 < count <= RANKS_MAX:
            raise Error(f"a job of {count} ranks: expected 1 to {RANKS_MAX}")
        self._count = count

    def check(self, new: Announcement, come: Come) -> None:
        """Refuse what is not a slot, runs past the end, or overlaps another group."""
        if not (new.name.isascii() and new.name.isdigit()):
            raise Error(f"group {new.name!r}: expected its first row in the table of ports")
        first, stop = int(new.name), int(new.name) + new.size
        if stop > self._count:
            raise Error(
                f"rows {first} to {stop - 1} of the group at row {first}, but the table of ports "
                f"ends with row {self._count - 1}: compare its offset and its number of processes"
            )
        for name, group in come.items():
            other = int(name)
            if first < other + group.size and other < stop:
                raise Error(
                    f"the group at row {first} has {new.size} processes and the one at row {other} "
                    f"{group.size}: they overlap; an offset is the sum of the processes before it"
                )

    def met(self, groups: int, ranks: int) -> bool:
        """Return whether every slot is taken."""
        return ranks == self._count

    def order(self, come: Come) -> Iterable[str]:
        """Return the names by their numbers."""
        return sorted(come, key=int)

    def absent(self, come: Come) -> list[str]:
        """Return the slots without a claim."""
        free = set(range(self._count))
        for name, group in come.items():
            free.difference_update(range(int(name), int(name) + group.size))
        return [f"the processes of rows {ranges(free)}"] if free else []

    def nameless(self, come: Come) -> int:
        """Return 0: it is not known how many groups there are."""
        return 0
