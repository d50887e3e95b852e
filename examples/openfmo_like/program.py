"""One process of the job, whichever part it plays."""

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence

import acp_mpi as acp

from . import options as command_line
from . import orders, start
from .cast import Cast, communicator, of_this_job
from .molecule import InputError
from .orders import Lost
from .reading import Calculation


def main(argv: Sequence[str]) -> int:
    """Start a job, or play a part in that which this process belongs to; return the exit code."""
    options = command_line.parse(argv)
    if not (acp.is_initialized() or start.belongs_to_a_job(os.environ)):
        return _start(options, argv)
    with acp.init():
        try:
            calculation = command_line.calculation(options)
            cast = of_this_job(options.groups, options.group_size, options.servers)
        except InputError as error:
            if acp.rank() == 0:
                print(f"openfmo_like: {error}", file=sys.stderr)
            return 2
        return play(calculation, cast, options)


def _start(options: argparse.Namespace, argv: Sequence[str]) -> int:
    """Start the job, or show how; what is wrong with the input is said here, once."""
    try:
        command_line.calculation(options)
        command_line.check_outputs(options)
    except InputError as error:
        print(f"openfmo_like: {error}", file=sys.stderr)
        return 2
    text = start.job_file(options, [word for word in argv if word != "--dry-run"])
    if options.dry_run:
        print(text, end="")
    else:
        start.become_macprun(text)
    return 0


def play(calculation: Calculation, cast: Cast, options: argparse.Namespace) -> int:
    """Play this process's part and return its exit code."""
    comm = communicator(cast)
    rank = acp.rank()
    if acp.procs() == 1:
        worker = threading.Thread(target=_work_aside, args=(calculation, cast))
        worker.start()
        code = _conduct(calculation, cast, options)
        worker.join()
        return code
    if rank == cast.master:
        return _conduct(calculation, cast, options)
    if rank in cast.servers:
        return _keep_data(cast)
    _work(calculation, cast, comm)
    return 0


def _conduct(calculation: Calculation, cast: Cast, options: argparse.Namespace) -> int:
    from .master import conduct

    return conduct(calculation, cast, options)


def _keep_data(cast: Cast) -> int:
    """Sleep while others read and write this process's memory; say what that took in the end."""
    before = time.process_time()
    try:
        orders.take(1, (cast.master,))
    except Lost as error:
        print(f"openfmo_like: data server: {error}", file=sys.stderr)
        return 1
    spent = round((time.process_time() - before) * 1e6) + 1
    orders.report(cast.master, len(cast.groups) + cast.servers.index(acp.rank()), spent)
    return 0


def _work(calculation: Calculation, cast: Cast, comm: object) -> None:
    from .worker import work

    try:
        work(calculation, cast, comm)
    except (Lost, acp.PeerLostError) as error:
        # The other workers of this group may be waiting for it inside MPI.
        acp.abort(f"openfmo_like: worker: {orders.reason(error)}")


def _work_aside(calculation: Calculation, cast: Cast) -> None:
    """Be the worker of a job of one process, in a thread: the master would wait for ever."""
    try:
        _work(calculation, cast, None)
    except Exception as error:
        acp.abort(f"openfmo_like: worker: {error!r}")
