"""The master: it plans, gives out, adds up, and computes nothing. Standard library only."""

import argparse
import sys

import acp_mpi as acp

from . import gantt, orders, report
from .cast import Cast
from .dump import Dump
from .fmo import NotSelfConsistent, Result, Sweep, atomic_charges, calculate
from .jobs import Failed
from .molecule import InputError
from .options import check_outputs
from .orders import Lost
from .places import Places, allocate
from .progress import Progress
from .reading import Calculation
from .scheduler import Scheduler


def conduct(calculation: Calculation, cast: Cast, options: argparse.Namespace) -> int:
    """Have the energy calculated, print it, and return the exit code."""
    dump = Dump(options.dump, options.dump_every, calculation, acp)
    progress = Progress()
    scheduler = Scheduler(cast, progress.show)
    try:
        places = _prepare(scheduler, cast, options, dump)
    except (InputError, Lost, acp.PeerLostError) as error:
        scheduler.stop()
        print(f"openfmo_like: {orders.reason(error)}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    sizes = [len(group) for group in cast.groups]
    print(report.heading(calculation, places.functions, sizes), flush=True)

    def tell(number: int, sweep: Sweep) -> None:
        progress.clear()
        print(report.sweep_line(number, sweep), flush=True)

    try:
        scheduler.on_phase = progress.phase
        result = calculate(calculation, places, scheduler, dump, acp, tell)
        charges = atomic_charges(calculation, places, len(result.sweeps) - 1, acp)
    except (Lost, acp.PeerLostError, Failed, NotSelfConsistent) as error:
        progress.clear()
        return _fail(orders.reason(error), options)
    finally:
        scheduler.stop()
    progress.clear()
    spent = scheduler.server_seconds()
    try:
        _write(calculation, result, scheduler, charges, spent, options)
    except OSError as error:
        return _fail(f"the results could not be written: {error}", options)
    dump.remove()
    return 0


def _fail(reason: str, options: argparse.Namespace) -> int:
    """Say why there is no result, and from where to go on; return the exit code."""
    print(f"openfmo_like: {reason}", file=sys.stderr)
    if options.dump.exists():
        print(f"openfmo_like: go on with --restart {options.dump}", file=sys.stderr)
    return 1


def _prepare(scheduler: Scheduler, cast: Cast, options: argparse.Namespace, dump: Dump) -> Places:
    """Return where the data is, after the workers know it, too."""
    check_outputs(options)
    if options.restart is not None:
        dump.load(options.restart)
    sizes = scheduler.sizes()
    if isinstance(sizes, str):
        raise InputError(sizes)
    functions, atoms = sizes
    places = allocate(functions, atoms, cast.servers, acp)
    dump.restore(places)
    scheduler.begin(places)
    return places


def _write(
    calculation: Calculation,
    result: Result,
    scheduler: Scheduler,
    charges: list[float],
    spent: list[float],
    options: argparse.Namespace,
) -> None:
    print(report.tables(calculation, result, scheduler.phases, charges), flush=True)
    for seconds in spent:
        print(f"a data server took {seconds:.3f} s of processor time")
    lost = scheduler.lost_groups
    for group in lost:
        print(f"group {group + 1} of the workers died; the others did its jobs")
    if options.json is not None:
        report.write_json(options.json, calculation, result, scheduler.phases, charges, lost, spent)
    if options.gantt is not None:
        title = f"FMO2-RHF/{calculation.basis}, {len(calculation.fragments)} fragments"
        gantt.write_gantt(options.gantt, scheduler.phases, title)
        print(f"who did what, and when: {options.gantt}")
