"""Global memory over all processes of a job, hosted by mpi4py.

The public names and nothing else; `help(acp_mpi.copy)` and docs/ say what they mean.
"""

import sys as _sys

if not _sys.platform.startswith("linux"):
    raise ImportError(f"acp_mpi runs on Linux only, and this is {_sys.platform}")

from acp_mpi.engine._engine import (
    GA_NULL,
    HANDLE_ALL,
    HANDLE_CONT,
    HANDLE_NULL,
    add4,
    add8,
    and4,
    and8,
    barrier,
    cas4,
    cas8,
    colors,
    complete,
    copy,
    copy_many,
    fetch_add4,
    fetch_add8,
    fetch_and4,
    fetch_and8,
    fetch_cas4,
    fetch_cas8,
    fetch_or4,
    fetch_or8,
    fetch_swap4,
    fetch_swap8,
    fetch_xor4,
    fetch_xor8,
    free,
    get,
    iget,
    inquire,
    iput,
    malloc,
    or4,
    or8,
    procs,
    put,
    query_address,
    query_color,
    query_rank,
    query_starter_ga,
    rank,
    swap4,
    swap8,
    sync,
    test,
    wait,
    wait_until,
    xor4,
    xor8,
)
from acp_mpi.errors import (
    AddressError,
    AlignmentError,
    Error,
    HeapFullError,
    NotInitializedError,
    PeerLostError,
    RankError,
    TruncationError,
)
from acp_mpi.runtime import (
    abort,
    finalize,
    group,
    groups,
    init,
    is_initialized,
    ranks,
    refresh,
    reset,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.datastructs import (
        Counter,
        Cursor,
        Deque,
        List,
        Map,
        MultiSet,
        Set,
        Vector,
        Workspace,
    )
    from acp_mpi.rma.arrays import (
        empty,
        view,
        zeros,
    )
    from acp_mpi.rma.exchange import (
        allgather,
        bcast,
        lookup,
        publish,
    )
    from acp_mpi.rma.heap import (
        HeapStatistics,
        heap_statistics,
    )
    from acp_mpi.rma.many import (
        fetch_add4_many,
        fetch_add8_many,
        fetch_and4_many,
        fetch_and8_many,
        fetch_cas4_many,
        fetch_cas8_many,
        fetch_or4_many,
        fetch_or8_many,
        fetch_swap4_many,
        fetch_swap8_many,
        fetch_xor4_many,
        fetch_xor8_many,
    )
    from acp_mpi.rma.registration import (
        AtKey,
        query_ga,
        register_memory,
        unregister_memory,
    )
    from acp_mpi.rma.remote import (
        RemoteArray,
        remote,
    )

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

# What each room brings is loaded when one of its names is first used: a program is spared the
# memory and the time of all others.
_ROOMS = {
    "acp_mpi.datastructs": (
        "Counter",
        "Cursor",
        "Deque",
        "List",
        "Map",
        "MultiSet",
        "Set",
        "Vector",
        "Workspace",
    ),
    "acp_mpi.rma.arrays": ("empty", "view", "zeros"),
    "acp_mpi.rma.exchange": ("allgather", "bcast", "lookup", "publish"),
    "acp_mpi.rma.heap": ("HeapStatistics", "heap_statistics"),
    "acp_mpi.rma.many": (
        "fetch_add4_many",
        "fetch_add8_many",
        "fetch_and4_many",
        "fetch_and8_many",
        "fetch_cas4_many",
        "fetch_cas8_many",
        "fetch_or4_many",
        "fetch_or8_many",
        "fetch_swap4_many",
        "fetch_swap8_many",
        "fetch_xor4_many",
        "fetch_xor8_many",
    ),
    "acp_mpi.rma.registration": ("AtKey", "query_ga", "register_memory", "unregister_memory"),
    "acp_mpi.rma.remote": ("RemoteArray", "remote"),
}  # fmt: skip


def __getattr__(name: str) -> object:
    for room, names in _ROOMS.items():
        if name in names or room == f"acp_mpi.{name}":
            module = __import__(room, fromlist=names)
            globals().update((each, getattr(module, each)) for each in names)
            return globals()[name]
    raise AttributeError(f"module 'acp_mpi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "__doc__", "__all__"])
