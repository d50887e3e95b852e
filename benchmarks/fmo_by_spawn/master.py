"""The master: it spawns data servers and groups of workers, plans, gives out, adds up."""

import argparse
import sys
from collections.abc import Callable, Sequence

from mpi4py import MPI
from openfmo_like import report
from openfmo_like.dump import Dump
from openfmo_like.fmo import Sweep, atomic_charges, calculate
from openfmo_like.molecule import InputError
from openfmo_like.places import allocate
from openfmo_like.reading import Calculation

from .messages import Servers
from .scheduler import Scheduler


def conduct(
    calculation: Calculation,
    options: argparse.Namespace,
    command: Callable[[str], Sequence[str]],
    nap: float,
    look: Callable[[str], None],
) -> None:
    """Have the energy calculated, print it and write it; `command` is that of a part's process."""
    server = MPI.COMM_SELF.Spawn(sys.executable, command("server"), maxprocs=options.servers)
    ports = [server.recv(source=rank) for rank in range(options.servers)]
    groups = [
        MPI.COMM_SELF.Spawn(sys.executable, command("worker"), maxprocs=options.group_size)
        for _ in range(options.groups)
    ]
    for number, group in enumerate(groups):
        group.send((number, ports), 0)
    said = [group.recv(source=0) for group in groups]
    if isinstance(said[0], str):
        raise InputError(said[0])
    functions, atoms = said[0]
    look("joined")
    memory = Servers([(server, rank) for rank in range(options.servers)])
    places = allocate(functions, atoms, range(options.servers), memory)
    scheduler = Scheduler(groups, nap)
    scheduler.tell(places)
    heads = [options.group_size] * options.groups
    print(report.heading(calculation, places.functions, heads), flush=True)

    def tell(number: int, sweep: Sweep) -> None:
        print(report.sweep_line(number, sweep), flush=True)

    dump = Dump(options.dump, options.dump_every, calculation, memory)
    result = calculate(calculation, places, scheduler, dump, memory, tell)
    charges = atomic_charges(calculation, places, len(result.sweeps) - 1, memory)
    print(report.tables(calculation, result, scheduler.phases, charges), flush=True)
    if options.json is not None:
        report.write_json(options.json, calculation, result, scheduler.phases, charges, [], [])
    dump.remove()
    look("calculated")
    scheduler.tell(None)
    memory.stop()
    for comm in (*groups, server):
        comm.Disconnect()
