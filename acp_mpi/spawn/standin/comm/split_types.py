"""What a communicator of several groups can be split by, of what MPI calls hardware."""

from __future__ import annotations

from acp_mpi.spawn.standin.original import MPI, fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Of MPI 4.1; where mpi4py or MPI do not know a type, its number is another's, or UNDEFINED.
_NAMED = {MPI.COMM_TYPE_HW_GUIDED, getattr(MPI, "COMM_TYPE_RESOURCE_GUIDED", MPI.UNDEFINED)}


def shares_memory(split_type: int, info: Any) -> bool:
    """Return whether ranks that share memory are to be together, False if nobody is to be.

    Nothing is known of any other part of a node. Raise MPI.Exception for what is no type.
    """
    if split_type == MPI.COMM_TYPE_SHARED:
        return True
    if split_type in _NAMED - {MPI.UNDEFINED}:
        hints = {} if info is None or info == MPI.INFO_NULL else dict(info)
        return hints.get("mpi_hw_resource_type") == "mpi_shared_memory"
    if split_type not in (MPI.COMM_TYPE_HW_UNGUIDED, MPI.UNDEFINED):
        fail(MPI.ERR_ARG)
    return False
