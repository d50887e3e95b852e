"""How each rank reaches memory of the devices of the others, for `info`."""

from acp_mpi.comm.collectives import calls
from acp_mpi.engine import _engine
from acp_mpi.errors import DeviceError, HeapFullError
from acp_mpi.rma.arrays import empty
from acp_mpi.rma.device_array import devices


def _reach(ga: int) -> str:
    found = _engine.device_view(ga, 1)
    if found is None:
        return "through host memory, between nodes"
    return f"by its owner: {found}" if isinstance(found, str) else "mapped"


def look() -> list[tuple[int, str, str]]:
    """Return, for the current device of each kind of each other rank, its rank, name and reach.

    Collective. Has a byte of memory on the current device of each kind meanwhile, and a context.
    """
    arrays = []
    for kind in sorted({each.name.partition(":")[0] for each in devices() if not each.reason}):
        try:
            arrays.append(empty(1, "u1", device=kind))
        except (DeviceError, HeapFullError):  # its memory is full, or it is another's alone
            continue
    everyone = calls.allgather((_engine.rank(), [(each.device, each.ga) for each in arrays]))
    rows = [
        (rank, name, _reach(ga))
        for rank, theirs in filter(None, everyone)
        if rank != _engine.rank()
        for name, ga in theirs
    ]
    _engine.sync()
    for each in arrays:
        each.close()
    return rows
