"""Where the groups of a job meet, and how one of them joins there."""

import contextlib
import dataclasses
import os

from acp_mpi.config import Settings
from acp_mpi.errors import Error
from acp_mpi.spawn import connector, portfile, secret
from acp_mpi.spawn.address import may_span_hosts
from acp_mpi.spawn.expectation import Slots
from acp_mpi.spawn.membership import ROW_SIZE, Membership


@dataclasses.dataclass(frozen=True)
class Meeting:
    """What the processes of a group know before they join."""

    group: str
    secret: bytes = dataclasses.field(repr=False)
    address: str | None  # of the rendezvous; None: the group is the job
    hosted: int  # ranks of the job whose rendezvous this group runs; 0: somebody else does
    timeout: float

    @property
    def wide(self) -> bool:
        """Whether processes of other hosts can come."""
        return self.address is not None and may_span_hosts(self.address)

    def join(self, size: int, has_mpi: bool, first_rank: int, rows: bytes) -> Membership:
        """Announce the rows of a group of `size`, from `first_rank` on, and return the table.

        Errors as of `connector.join`.
        """
        if self.address is None:
            membership = Membership()
            membership.append(self.group, has_mpi, rows)
            return membership
        single = (rows[at : at + ROW_SIZE] for at in range(0, len(rows), ROW_SIZE))
        numbered = enumerate(single, first_rank)
        with contextlib.ExitStack() as stack:
            if self.hosted:
                # only who needs a server loads one
                from acp_mpi.spawn.rendezvous import Server

                expected = Slots(self.hosted)
                server = Server(self.secret, expected, listen=self.address, timeout=self.timeout)
                stack.enter_context(server)
            table = connector.join(
                self.address, self.secret, self.group, size, has_mpi, numbered, self.timeout
            )
            if self.hosted:
                server.wait()
            return table


def find(settings: Settings, size: int) -> Meeting:
    """Return where a group of `size` meets the others, as its settings say.

    Raises Error and PermissionError as `secret.read` and `portfile.read` do.
    """
    if settings.multirun is not None:
        return _by_table(settings, *settings.multirun, size)
    given = {"ACP_SECRET_FILE": settings.secret_file, "ACP_SECRET": settings.secret}
    set_ones = {name: text for name, text in given.items() if text is not None}
    alone = settings.rendezvous is None
    return Meeting(
        group=settings.group or "main",
        secret=os.urandom(secret.SIZE) if alone else secret.load(set_ones),
        address=settings.rendezvous,
        hosted=0,
        timeout=settings.join_timeout,
    )


def _by_table(settings: Settings, path: str, offset: int, size: int) -> Meeting:
    if settings.rendezvous is not None or settings.group is not None or settings.group_size != 1:
        raise Error(
            f"--acp-multirun {path} {offset} says where the job meets and who this process is: "
            "unset ACP_RENDEZVOUS, ACP_GROUP and ACP_GROUP_SIZE; without MPI each process is a "
            "group of its own and has its own row as its offset"
        )
    table = portfile.read(path)
    table.check_group(offset, size)
    return Meeting(
        group=str(offset),
        secret=table.secret(),
        address=table.address,
        hosted=0 if offset else table.ranks,
        timeout=settings.join_timeout,
    )
