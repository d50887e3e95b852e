"""Roots of collectives: who gives, and who gets."""

from __future__ import annotations

from abc import ABC

from acp_mpi.spawn.standin.original import MPI, fail
from acp_mpi.spawn.standin.p2p.addresses import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from acp_mpi.spawn.standin.p2p.addresses import Circle


class Roots(ABC):
    """The members of a communicator, one of whom is the root of a call."""

    local: Circle
    peers: Circle
    inter: bool

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
