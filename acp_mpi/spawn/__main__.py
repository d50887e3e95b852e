"""`python -m acp_mpi.spawn app.py ...`: run a program, and whatever it spawns, with our MPI."""

import argparse
import os
import runpy
import sys

from acp_mpi.spawn import hook


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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


def main(argv: list[str]) -> None:
    """Run the command line."""
    os.environ["ACP_SPAWN"] = "1"  # for what the program starts itself
    hook.install()
    if given := _module_first(argv):
        sys.argv = [given[0], *given[1]]
        runpy.run_module(given[0], run_name="__main__", alter_sys=True)
        return
    arguments = _parser().parse_args(argv).arguments
    if not arguments:
        _parser().error("name the program to run: app.py, or -m MODULE")
    if not os.path.exists(arguments[0]):
        _parser().error(f"there is no program {arguments[0]!r} here; give the path of one")
    sys.argv = arguments
    if not sys.flags.safe_path:  # as Python does for `python app.py`
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
