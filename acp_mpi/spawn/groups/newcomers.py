"""Groups that come to a job which has begun: the rules, without the network."""

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.announcement import Announcement, own
from acp_mpi.job.rendezvous.arrival import Coming, places
from acp_mpi.job.rendezvous.membership import Membership
from acp_mpi.util.text import ranges


class Newcomers:
    """The table of a job, and the groups of which some processes have come."""

    def __init__(self, table: Membership) -> None:
        self.table = table
        self._coming: dict[str, Coming] = {}

    def enter(self, new: Announcement, origin: str) -> bool:
        """Note what a member announces; return whether its group is in the table now.

        Raises Error with the text to be sent to the member.
        """
        self._check(new)
        group = self._coming.setdefault(new.name, Coming(new.size, new.has_mpi, new.build))
        for rank, _ in new.rows:
            if (group.size, group.has_mpi) != (new.size, new.has_mpi) or rank in group.rows:
                raise Error(
                    f"rank {rank} of {new.size} of a group {new.name!r} comes while another of "
                    f"{group.size} has come from {places(group.origins)}: give each process an "
                    "ACP_GROUP_RANK of its own, and each group a name of its own"
                )
        group.rows.update(new.rows)
        group.origins.update((rank, origin) for rank, _ in new.rows)
        if not group.complete:
            return False
        rows = b"".join(group.rows[rank] for rank in range(group.size))
        self.table.append(new.name, group.has_mpi, rows)
        del self._coming[new.name]
        return True

    def withdraw(self, old: Announcement) -> None:
        """Forget a member that left before its group was complete."""
        group = self._coming.get(old.name)
        if group is None:
            return
        for rank, _ in old.rows:
            group.rows.pop(rank, None)
            group.origins.pop(rank, None)
        if not group.rows:
            del self._coming[old.name]

    def missing(self, name: str) -> str:
        """Say what has not come of a group."""
        group = self._coming.get(name)
        if group is None:
            return f"group {name!r}"
        return f"ranks {ranges(group.absent)} of group {name!r}"

    def _check(self, new: Announcement) -> None:
        build = own(new.build.links)  # links refuse other ways to protect them, and say so
        if refusal := new.build.refusal(f"group {new.name!r}", build, "this job"):
            raise Error(refusal)
        if any(new.name == group.name for group in self.table.groups):
            raise Error(f"a group {new.name!r} is in this job already: give it another name")
