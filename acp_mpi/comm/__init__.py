"""Messages between any two ranks, and what is built of them.

Members of this package move data between ranks that both call; it knows `rma`, and no container.
"""

from acp_mpi.comm.requests import testall, waitall, waitany

__all__ = ["testall", "waitall", "waitany"]
