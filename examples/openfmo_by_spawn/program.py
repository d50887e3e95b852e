"""One process of the program, whichever part it plays."""

import argparse
import sys
from collections.abc import Callable, Sequence

from mpi4py import MPI
from openfmo_like import options as command_line
from openfmo_like.fmo import NotSelfConsistent
from openfmo_like.jobs import Failed
from openfmo_like.molecule import InputError

NAME = "openfmo_by_spawn"
BE = "--be="  # before a part's name, the first word of who was spawned


def main(argv: Sequence[str]) -> int:
    """Be the master, or what he has spawned this process for; return the exit code."""
    part, rest = (argv[0], argv[1:]) if argv and argv[0].startswith(BE) else ("", argv)

    def command(part: str) -> list[str]:
        return ["-m", NAME, BE + part, *argv]

    try:
        play(part.removeprefix(BE), rest, command)
    except InputError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    except (Failed, NotSelfConsistent, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(1)  # who was spawned waits for orders
    return 0


def play(
    part: str,
    arguments: Sequence[str],
    command: Callable[[str], Sequence[str]],
    nap: float = 0.0,
    look: Callable[[str], None] = lambda stage: None,
) -> None:
    """Be a "server" or "worker", else the master, who starts a part's processes by `command`.

    Who waits for messages sleeps `nap` seconds between two looks for them, or waits in MPI (0).
    """
    options = command_line.parse(arguments, NAME)
    if part == "server":
        from .server import serve

        serve(nap, look)
        return
    if not part:
        _check(options)
    calculation = command_line.calculation(options)
    if part == "worker":
        from .worker import work

        work(calculation)
    else:
        from .master import conduct

        conduct(calculation, options, command, nap, look)


def _check(options: argparse.Namespace) -> None:
    """Raise InputError for what `openfmo_like` can do and this cannot."""
    if MPI.COMM_WORLD.Get_size() > 1:
        raise InputError("start one process: it spawns all the others")
    if options.dry_run:
        raise InputError("--dry-run: there is no job file to print; openfmo_like has one")
    command_line.check_outputs(options)
