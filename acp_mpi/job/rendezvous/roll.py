"""The roll of the rendezvous: members that have come or are missing, without the network."""

from collections.abc import Mapping

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.announcement import Announcement
from acp_mpi.job.rendezvous.arrival import Arrival, Coming, places
from acp_mpi.job.rendezvous.expectation import Expectation, Names, Number
from acp_mpi.job.rendezvous.membership import Membership
from acp_mpi.util.text import ranges

_MOST_GROUPS = 32  # that a report names one by one


class Roll:
    """The groups of a job as they come."""

    def __init__(self, expected: int | Mapping[str, int] | Expectation) -> None:
        self._expected: Expectation
        if isinstance(expected, int):
            self._expected = Number(expected)
        elif isinstance(expected, Mapping):
            self._expected = Names(expected)
        else:
            self._expected = expected
        self._groups: dict[str, Coming] = {}
        self._whole = self._ranks = 0  # complete groups, and their ranks
        self._failures: dict[str, str] = {}

    @property
    def complete(self) -> bool:
        """Whether all groups of the job have come with all their ranks."""
        return self._expected.met(self._whole, self._ranks)

    def enter(self, new: Announcement, origin: str) -> None:
        """Note what a member announces, or raise Error with the text to be sent to it."""
        self._check_version(new)
        group = self._groups.get(new.name)
        if group is None:
            self._expected.check(new, self._groups)
            group = self._groups[new.name] = Coming(new.size, new.has_mpi, new.build)
        elif group.has_mpi or new.has_mpi:
            raise Error(
                f"a group {new.name!r} has come already, from "
                f"{places(group.origins)}: give each group a name of its own"
            )
        elif group.size != new.size:
            raise Error(
                f"group {new.name!r} has {group.size} ranks as announced by "
                f"{places(group.origins)}, and not {new.size}"
            )
        for rank, _ in new.rows:
            if rank in group.rows:
                raise Error(
                    f"rank {rank} of group {new.name!r} has come already, from "
                    f"{group.origins[rank]}: give each process an ACP_GROUP_RANK of "
                    "its own, and each group a name of its own"
                )
        group.rows.update(new.rows)
        group.origins.update((rank, origin) for rank, _ in new.rows)
        self._count(group, 1)

    def withdraw(self, old: Announcement) -> None:
        """Forget a member that left before the job was complete, so that another may come."""
        group = self._groups[old.name]
        self._count(group, -1)
        for rank, _ in old.rows:
            del group.rows[rank], group.origins[rank]
        if not group.rows:
            del self._groups[old.name]

    def fail(self, name: str, reason: str) -> str:
        """Note that the rest of a group will not come; return the text to be sent to all."""
        self._failures[name] = reason
        return f"group {name!r} ended before it had joined: {reason}"

    def arrivals(self) -> tuple[Arrival, ...]:
        """Return what has come of each group, those expected first, those without a name last."""
        names = dict.fromkeys((*self._expected.sizes, *self._groups, *self._failures))
        nameless = [Arrival("", None, None)] * self._expected.nameless(self._groups)
        return (*(self._arrival(name) for name in names), *nameless)

    def membership(self) -> Membership:
        """Return the table of a job that is complete."""
        table = Membership()
        for name in self._expected.order(self._groups):
            group = self._groups[name]
            rows = b"".join(group.rows[rank] for rank in range(group.size))
            table.append(name, group.has_mpi, rows)
        return table

    def report(self) -> str:
        """Say which groups and ranks came, from where, and which are missing."""
        came, missing = [], []
        for name, group in self._groups.items():
            ranks = "complete" if group.complete else f"ranks {ranges(group.rows)}"
            came.append(f"group {name!r} of {group.size} ({ranks}) from {places(group.origins)}")
            if not group.complete:
                missing.append(f"ranks {ranges(group.absent)} of group {name!r}")
        missing += self._expected.absent(self._groups)
        said = "; ".join(_some(came)) or "nobody"
        return f"came: {said}; missing: {', '.join(_some(missing)) or 'nobody'}"

    def _check_version(self, new: Announcement) -> None:
        for name, group in self._groups.items():
            another = f"group {name!r} from {places(group.origins)}"
            if refusal := new.build.refusal(f"group {new.name!r}", group.build, another):
                raise Error(refusal)
            return  # the others have been compared with it

    def _count(self, group: Coming, sign: int) -> None:
        if group.complete:
            self._whole += sign
            self._ranks += sign * group.size

    def _arrival(self, name: str) -> Arrival:
        group, failure = self._groups.get(name), self._failures.get(name)
        if group is None:
            return Arrival(name, self._expected.sizes.get(name), None, failure=failure)
        ranks = tuple(sorted(group.rows))
        origins = tuple(group.origins[rank] for rank in ranks)
        return Arrival(name, group.size, group.has_mpi, ranks, origins, failure)


def _some(texts: list[str]) -> list[str]:
    more = len(texts) - _MOST_GROUPS
    return [*texts[:_MOST_GROUPS], f"{more} more groups"] if more > 0 else texts
