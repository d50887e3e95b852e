"""The members of a communicator as its collectives see them, and their roots."""

from __future__ import annotations

from _thread import allocate_lock

from acp_mpi.spawn.standin.coll.teams import Teams
from acp_mpi.spawn.standin.family import MPI, fail
from acp_mpi.spawn.standin.p2p.transport import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from acp_mpi.spawn.standin.comm.bodies import Body


class Roots:
    """The members of a communicator, with the root of a call among them."""

    def __init__(self, body: Body) -> None:
        self.local, self.peers, self.inter, self.check = (
            body.local, body.peers, body.inter, body.check
        )  # fmt: skip
        self.teams = Teams(body.context, body.local, body.peers if body.inter else None)
        self._persistent = 0
        self._lock = allocate_lock()

    def next_teams(self) -> Teams:
        """Return those of the next persistent collective; all members count alike."""
        with self._lock:
            self._persistent += 1
            return self.teams.apart(self._persistent)

    def from_root(self, root: int) -> tuple[bool, bool]:
        """Return whether this rank gives something, and whether it gets something."""
        if not self.inter:
            return root == self.local.rank, root != self.local.rank
        return root == MPI.ROOT, root not in (MPI.ROOT, MPI.PROC_NULL)

    def to_root(self, root: int) -> tuple[bool, bool]:
        """Return whether this rank gives something, and whether it gets something."""
        if not self.inter:
            return True, root == self.local.rank
        gets, gives = self.from_root(root)
        return gives, gets

    def root_of(self, root: int) -> Any:
        """Return the rank in the job of a root, None for PROC_NULL; raise if there is none."""
        if self.inter and root == MPI.PROC_NULL:
            return None
        if self.inter and root == MPI.ROOT:
            return self.local.ranks[self.local.rank]
        root = whole("root", root)
        if not 0 <= root < len(self.peers):
            fail(MPI.ERR_ROOT)
        return self.peers.ranks[root]
