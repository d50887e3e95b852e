"""Global memory over all processes of a job, hosted by mpi4py.

The public names and nothing else; `help(acp_mpi.copy)` and docs/ say what they mean.
"""

import sys as _sys
from typing import TYPE_CHECKING

if not _sys.platform.startswith("linux"):
    raise ImportError(f"acp_mpi runs on Linux only, and this is {_sys.platform}")

if TYPE_CHECKING:
    from acp_mpi.names import *

__version__ = "0.1.0"

__all__ = [
    "GA_NULL",
    "HANDLE_ALL",
    "HANDLE_CONT",
    "HANDLE_NULL",
    "AddressError",
    "AlignmentError",
    "AtKey",
    "Counter",
    "Cursor",
    "Deque",
    "Error",
    "HeapFullError",
    "HeapStatistics",
    "List",
    "Map",
    "MultiSet",
    "NotInitializedError",
    "PeerLostError",
    "RankError",
    "RemoteArray",
    "Set",
    "TruncationError",
    "Vector",
    "Workspace",
    "abort",
    "add4",
    "add8",
    "allgather",
    "and4",
    "and8",
    "barrier",
    "bcast",
    "cas4",
    "cas8",
    "colors",
    "complete",
    "copy",
    "copy_many",
    "empty",
    "fetch_add4",
    "fetch_add4_many",
    "fetch_add8",
    "fetch_add8_many",
    "fetch_and4",
    "fetch_and4_many",
    "fetch_and8",
    "fetch_and8_many",
    "fetch_cas4",
    "fetch_cas4_many",
    "fetch_cas8",
    "fetch_cas8_many",
    "fetch_or4",
    "fetch_or4_many",
    "fetch_or8",
    "fetch_or8_many",
    "fetch_swap4",
    "fetch_swap4_many",
    "fetch_swap8",
    "fetch_swap8_many",
    "fetch_xor4",
    "fetch_xor4_many",
    "fetch_xor8",
    "fetch_xor8_many",
    "finalize",
    "free",
    "get",
    "group",
    "groups",
    "heap_statistics",
    "iget",
    "init",
    "inquire",
    "iput",
    "is_initialized",
    "lookup",
    "malloc",
    "or4",
    "or8",
    "procs",
    "publish",
    "put",
    "query_address",
    "query_color",
    "query_ga",
    "query_rank",
    "query_starter_ga",
    "rank",
    "ranks",
    "refresh",
    "register_memory",
    "remote",
    "reset",
    "swap4",
    "swap8",
    "sync",
    "test",
    "unregister_memory",
    "view",
    "wait",
    "wait_until",
    "xor4",
    "xor8",
    "zeros",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "__doc__", "__all__"])


if not TYPE_CHECKING:

    def __getattr__(name):
        """Import all names when the first is used: `macprun` starts without them."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from acp_mpi import names

        globals().update((one, getattr(names, one)) for one in __all__)
        return globals()[name]
