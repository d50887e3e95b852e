"""Where the groups of a job meet, and how one of them joins there."""

from __future__ import annotations

import os

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.address import may_span_hosts, parse_address
from acp_mpi.job.rendezvous.membership import ROW_SIZE, Membership
from acp_mpi.util.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.config import Settings


class Meeting(Record):
    """The knowledge of the processes of a group before they join.

    `address` of the rendezvous is None where the group is the job. `hosted` are the ranks of the
    job if this group runs its rendezvous; 0: another one does.
    """

    __slots__ = ("group", "address", "hosted", "timeout", "secret", "links")  # noqa: RUF023

    def __init__(
        self,
        *,
        group: str,
        secret: bytes,
        address: str | None,
        hosted: int,
        timeout: float,
        links: str,
    ) -> None:
        self.group, self.secret, self.address = group, secret, address
        self.hosted, self.timeout, self.links = hosted, timeout, links

    def _parts(self) -> tuple[object, ...]:
        return self.group, self.address, self.hosted, self.timeout

    @property
    def wide(self) -> bool:
        """Whether processes of other hosts can come."""
        return self.address is not None and may_span_hosts(self.address)

    def join(self, size: int, has_mpi: bool, first_rank: int, rows: bytes) -> Membership:
        """Announce the rows of a group of `size`, from `first_rank` on, and return the table.

        Errors as of `connector.join`.
        """
        address = self.address
        if address is None:
            membership = Membership()
            membership.append(self.group, has_mpi, rows)
            return membership
        from acp_mpi.job.rendezvous import connector  # only the speaker of the group needs it

        single = (rows[at : at + ROW_SIZE] for at in range(0, len(rows), ROW_SIZE))
        numbered = enumerate(single, first_rank)

        def join() -> Membership:
            return connector.join(
                address, self.secret, self.group, size, has_mpi, numbered, self.timeout, self.links
            )

        if not self.hosted:
            return join()
        # loaded only where a server is needed
        from acp_mpi.job.rendezvous.expectation import Slots
        from acp_mpi.job.rendezvous.server import Server

        expected = Slots(self.hosted)
        with Server(self.secret, expected, listen=address, timeout=self.timeout) as server:
            if self.wide and not may_span_hosts(server.address):
                raise Error(
                    f"the rendezvous for {address} listens on {server.address}, where no other "
                    "host comes: name the host in the table of ports as all hosts know it"
                )
            table = join()
            server.wait()
        return table


def find(settings: Settings, size: int) -> Meeting:
    """Return where a group of `size` meets the others, as its settings say.

    Raises Error and PermissionError as `secret.read` and `portfile.read` do.
    """
    if settings.multirun is not None:
        return _by_table(settings, *settings.multirun, size)
    given = {"ACP_SECRET_FILE": settings.secret_file, "ACP_SECRET": settings.secret}
    set_ones = {name: text for name, text in given.items() if text}
    alone = settings.rendezvous is None
    if alone and (half := [*(["ACP_GROUP"] if settings.group else ()), *set_ones]):
        raise Error(
            f"init: {half[0]} is set, as in a job of several groups, and ACP_RENDEZVOUS, where "
            "they meet, is not; set it to what `macprun serve` prints, or for a job of one group "
            f"unset {' and '.join(half)}"
        )
    if settings.rendezvous is not None:
        try:
            parse_address(settings.rendezvous)
        except Error as reason:
            raise Error(f"init: ACP_RENDEZVOUS: {reason}") from None
    return Meeting(
        group=settings.group or "main",
        secret=os.urandom(secret.SIZE) if alone else secret.load(set_ones),
        address=settings.rendezvous,
        hosted=0,
        timeout=settings.join_timeout,
        links=settings.links,
    )


def _by_table(settings: Settings, path: str, offset: int, size: int) -> Meeting:
    if settings.rendezvous is not None or settings.group is not None or settings.group_size != 1:
        raise Error(
            f"--acp-multirun {path} {offset} says where the job meets and who this process is: "
            "unset ACP_RENDEZVOUS, ACP_GROUP and ACP_GROUP_SIZE; without MPI each process is a "
            "group of its own and has its own row as its offset"
        )
    from acp_mpi.job.rendezvous import portfile

    table = portfile.read(path)
    table.check_group(offset, size)
    return Meeting(
        group=str(offset),
        secret=table.secret(),
        address=table.address,
        hosted=0 if offset else table.ranks,
        timeout=settings.join_timeout,
        links=settings.links,
    )
