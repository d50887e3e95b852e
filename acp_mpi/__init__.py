"""Global memory over all processes of a job, hosted by mpi4py.

The public names and nothing else; `help(acp_mpi.copy)` and docs/ say what they mean.
"""

import sys as _sys

if not _sys.platform.startswith("linux"):
    raise ImportError(f"acp_mpi runs on Linux only, and this is {_sys.platform}")

__version__ = "0.1.0"

# Where the public names come from, for type checkers in __init__.pyi. Each room is loaded with the
# first of its names: a program is spared the memory and the time of all others.
_ROOMS = {
    "acp_mpi.comm": (
        "testall",
        "waitall",
        "waitany",
    ),
    "acp_mpi.comm.channels": ("ChannelStatistics",),
    "acp_mpi.comm.collectives.calls": (
        "allgather",
        "allreduce",
        "alltoall",
        "bcast",
        "exscan",
        "gather",
        "reduce",
        "reduce_scatter",
        "scan",
        "scatter",
    ),
    "acp_mpi.comm.collectives.started": (
        "iallgather",
        "iallreduce",
        "ialltoall",
        "ibarrier",
        "ibcast",
        "iexscan",
        "igather",
        "ireduce",
        "ireduce_scatter",
        "iscan",
        "iscatter",
    ),
    "acp_mpi.comm.segmented_buffer": ("SegmentedBuffer",),
    "acp_mpi.datastructs": (
        "Counter",
        "Cursor",
        "Deque",
        "KeyCursor",
        "List",
        "ListCursor",
        "Map",
        "MultiSet",
        "Set",
        "Vector",
        "Workspace",
    ),
    "acp_mpi.delegates.client": ("Delegate", "DelegateStatistics", "delegate"),
    "acp_mpi.delegates.requests": ("DelegateRequest",),
    "acp_mpi.delegates.ring": ("DelegateRing",),
    "acp_mpi.engine": ("get_include",),
    "acp_mpi.engine._engine": (
        "ANY_SOURCE",
        "ANY_TAG",
        "Channel",
        "GA_NULL",
        "HANDLE_ALL",
        "HANDLE_CONT",
        "HANDLE_NULL",
        "Message",
        "Request",
        "Status",
        "add4",
        "add8",
        "after",
        "and4",
        "and8",
        "barrier",
        "cas4",
        "cas8",
        "colors",
        "complete",
        "copy",
        "copy_many",
        "fetch_add4",
        "fetch_add8",
        "fetch_and4",
        "fetch_and8",
        "fetch_cas4",
        "fetch_cas8",
        "fetch_or4",
        "fetch_or8",
        "fetch_swap4",
        "fetch_swap8",
        "fetch_xor4",
        "fetch_xor8",
        "free",
        "get",
        "iget",
        "improbe",
        "inquire",
        "iprobe",
        "iput",
        "irecv",
        "is_alive",
        "isend",
        "losses",
        "malloc",
        "mprobe",
        "or4",
        "or8",
        "probe",
        "procs",
        "put",
        "query_address",
        "query_color",
        "query_rank",
        "query_starter_ga",
        "rank",
        "recv",
        "select",
        "send",
        "sendrecv",
        "size",
        "swap4",
        "swap8",
        "sync",
        "test",
        "wait",
        "wait_until",
        "xor4",
        "xor8",
    ),
    "acp_mpi.errors": (
        "AddressError",
        "AlignmentError",
        "ClosedError",
        "DeviceError",
        "EndOfChannel",
        "Error",
        "HeapFullError",
        "NotInitializedError",
        "PeerLostError",
        "RankError",
        "TruncationError",
    ),
    "acp_mpi.job.join": ("Group",),
    "acp_mpi.job.membership": (
        "group",
        "groups",
        "ranks",
        "refresh",
    ),
    "acp_mpi.rma.arrays": (
        "empty",
        "view",
        "zeros",
    ),
    "acp_mpi.rma.device_array": (
        "Device",
        "DeviceArray",
        "device_pointer",
        "devices",
    ),
    "acp_mpi.rma.exchange": (
        "lookup",
        "publish",
        "withdraw",
    ),
    "acp_mpi.rma.heap": (
        "HeapStatistics",
        "heap_statistics",
    ),
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
    "acp_mpi.rma.progress": (
        "Progress",
        "ProgressStatistics",
        "progress",
    ),
    "acp_mpi.rma.registration": (
        "AtKey",
        "query_ga",
        "register_memory",
        "unregister_memory",
    ),
    "acp_mpi.rma.remote": (
        "RemoteArray",
        "remote",
    ),
    "acp_mpi.job.runtime": (
        "Session",
        "abort",
        "finalize",
        "init",
        "is_initialized",
        "leave",
        "reset",
    ),
    "acp_mpi.spawn.groups.groups": (
        "spawn_group",
        "spawn_groups",
    ),
}
__all__ = sorted(name for names in _ROOMS.values() for name in names)


def __getattr__(name: str) -> object:
    for room, names in _ROOMS.items():
        if name in names or room == f"{__name__}.{name}":
            if room.endswith("._engine"):  # so asked for, its folder says why it is not there
                from acp_mpi.engine import _engine as module
            else:
                module = __import__(room, fromlist=names)
            globals().update((each, getattr(module, each)) for each in names)
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "__doc__", "__all__"])
