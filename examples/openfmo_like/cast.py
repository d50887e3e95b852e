"""Who does what: one master, some data servers, the groups of workers.

Groups that were joined are told apart by their names, the ranks of a single `mpirun` by number:
first the master, then the servers, then the workers. A job of one process plays all parts itself.
"""

from typing import Any, NamedTuple

import acp_mpi as acp

from .molecule import InputError

MASTER, SERVER, WORKER = "master", "server", "worker"


class Cast(NamedTuple):
    """The ranks that play each part; the first of a group of workers leads it."""

    master: int
    servers: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]

    def group_of(self, rank: int) -> int | None:
        """Return the number of the workers' group that a rank is in."""
        return next((g for g, ranks in enumerate(self.groups) if rank in ranks), None)


def of_this_job(groups: int, size: int, servers: int) -> Cast:
    """Return the cast of the job that was started; the numbers say how to divide one `mpirun`."""
    joined = acp.groups()
    if len(joined) > 1:
        ranks = {group.name: tuple(group.ranks) for group in joined}
        workers = [name for name in ranks if name.startswith(WORKER)]
        missing = [name for name in (MASTER, SERVER) if name not in ranks]
        if missing or not workers or len(ranks) != 2 + len(workers):
            raise InputError(
                f"the groups of the job are {', '.join(ranks)}; {MASTER}, {SERVER} and "
                f"{WORKER}1, {WORKER}2 and so on are expected"
            )
        return Cast(ranks[MASTER][0], ranks[SERVER], tuple(ranks[name] for name in workers))
    procs = acp.procs()
    if procs == 1:
        return Cast(0, (0,), ((0,),))
    wanted = 1 + servers + groups * size
    if procs != wanted:
        raise InputError(
            f"1 master, {servers} servers and {groups} groups of {size} are {wanted} processes, "
            f"but mpirun started {procs}; change --groups, --group-size, --servers or -n"
        )
    first = 1 + servers
    return Cast(
        0,
        tuple(range(1, first)),
        tuple(tuple(range(first + g * size, first + (g + 1) * size)) for g in range(groups)),
    )


def communicator(cast: Cast) -> Any:
    """Return the communicator of this process's group of workers, None if it is in none.

    Collective over the processes of one `mpirun`: joined groups have theirs already.
    """
    own = cast.group_of(acp.rank())
    if len(acp.groups()) > 1 or acp.procs() == 1:
        return None if own is None else acp.group().comm
    from mpi4py import MPI

    parent = acp.group().comm
    split = parent.Split(MPI.UNDEFINED if own is None else own, parent.Get_rank())
    return None if own is None else split
