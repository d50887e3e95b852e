"""`python -m acp_mpi.spawn app.py ...`: run a program, and whatever it spawns, with our MPI."""

import argparse
import importlib.util
import os
import runpy
import sys

from acp_mpi.spawn import hook
from acp_mpi.tools import program
from acp_mpi.util import usage


def _parser() -> usage.Parser:
    parser = usage.Parser(
        prog="python -m acp_mpi.spawn",
        description="Run a program of mpi4py as it is; its Spawn, ports and names need no dynamic "
        "processes of MPI.",
        epilog="Under a launcher: mpiexec -n 4 python -m acp_mpi.spawn app.py",
    )
    parser.add_argument("-m", metavar="MODULE", dest="module", help="run a module")
    parser.add_argument(
        "arguments", metavar="PROGRAM.py ...", nargs=argparse.REMAINDER, help="what to run"
    )
    return parser


def _module_first(argv: list[str]) -> tuple[str, list[str]] | None:
    """Return a module and its arguments: what follows -m MODULE is its own, options too."""
    return (argv[1], argv[2:]) if len(argv) > 1 and argv[0] == "-m" else None


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as reason:  # of the package that it should be in
        if reason.name is None or not module.startswith(f"{reason.name}."):
            raise
        return False


def _begin() -> None:
    program.shelter()
    os.environ["ACP_SPAWN"] = "1"  # for what the program starts itself
    hook.install()


def main(argv: list[str]) -> None:
    """Run the command line."""
    if given := _module_first(argv):
        if not _is_there(given[0]):
            _parser().error(f"there is no module {given[0]!r}; give the name of one")
        _begin()
        sys.argv = [given[0], *given[1]]
        runpy.run_module(given[0], run_name="__main__", alter_sys=True)
        return
    arguments = _parser().parse_args(argv).arguments
    if not arguments:
        _parser().error("name the program to run: app.py, or -m MODULE")
    if reason := program.refusal(arguments[0]):
        _parser().error(reason)
    _begin()
    program.run(arguments[0], arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
