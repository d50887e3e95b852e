"""The master: it spawns data servers and groups of workers, plans, gives out, adds up."""

import argparse
import sys
from collections.abc import Callable, Sequence

from mpi4py import MPI
from openfmo_like import gantt, report
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
    memory = Servers()
    dump = Dump(options.dump, options.dump_every, calculation, memory)
    if options.restart is not None:
        dump.load(options.restart)
    server = MPI.COMM_SELF.Spawn(sys.executable, command("server"), maxprocs=options.servers)
    memory.are([(server, rank) for rank in range(options.servers)])
    for rank in range(options.servers):
        server.send(options.groups, rank)
    ports = [server.recv(source=rank) for rank in range(options.servers)]
    groups = [
        MPI.COMM_SELF.Spawn(sys.executable, command("worker"), maxprocs=options.group_size)
        for _ in range(options.groups)
    ]
    for number, group in enumerate(groups):
        group.send((number, ports), 0)
    scheduler = Scheduler(groups, nap)
    sizes, *_ = [group.recv(source=0) for group in groups]
    if isinstance(sizes, str):  # what is wrong with the input, which only workers can know
        _end(scheduler, memory, [*groups, server])
        raise InputError(sizes)
    look("joined")
    functions, atoms = sizes
    places = allocate(functions, atoms, range(options.servers), memory)
    dump.restore(places)
    scheduler.tell(places)
    heads = [options.group_size] * options.groups
    print(report.heading(calculation, places.functions, heads), flush=True)

    def tell(number: int, sweep: Sweep) -> None:
        print(report.sweep_line(number, sweep), flush=True)

    result = calculate(calculation, places, scheduler, dump, memory, tell)
    charges = atomic_charges(calculation, places, len(result.sweeps) - 1, memory)
    print(report.tables(calculation, result, scheduler.phases, charges), flush=True)
    if options.json is not None:
        report.write_json(options.json, calculation, result, scheduler.phases, charges, [], [])
    if options.gantt is not None:
        title = f"FMO2-RHF/{calculation.basis}, {len(calculation.fragments)} fragments"
        gantt.write_gantt(options.gantt, scheduler.phases, title)
        print(f"who did what, and when: {options.gantt}")
    dump.remove()
    look("calculated")
    _end(scheduler, memory, [*groups, server])


def _end(scheduler: Scheduler, memory: Servers, comms: Sequence[MPI.Intercomm]) -> None:
    scheduler.tell(None)
    memory.stop()
    for comm in comms:
        comm.Disconnect()
