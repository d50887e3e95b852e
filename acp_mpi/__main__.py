"""`python -m acp_mpi info`, `heap`, `selftest`, and `python -m acp_mpi app.py ...`."""

import argparse
import sys

from acp_mpi.job import runtime
from acp_mpi.tools import heap_command, info, program
from acp_mpi.util import usage

_COMMANDS = ("info", "heap", "selftest")


def _parser() -> usage.Parser:
    parser = usage.Parser(
        prog="python -m acp_mpi",
        description="Show what acp_mpi finds here, or the memory of a running job, or whether all "
        "works with this MPI, or run a program so that an error on one rank ends its whole group.",
        epilog="Under a launcher: mpiexec -n 4 python -m acp_mpi info; of a running job: "
        "python -m acp_mpi heap PID; by itself: python -m acp_mpi selftest",
    )
    parser.add_argument(
        "what",
        metavar="info | heap | selftest | PROGRAM.py",
        nargs="?",
        help="what to show, or the program to run",
    )
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, default=[], help="the program's arguments"
    )
    return parser


def _run(path: str, arguments: list[str]) -> int:
    """Run a program as `__main__`; an error or a non-zero exit ends the group, a kill does not."""
    program.shelter()
    try:
        program.run(path, arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code and runtime.is_initialized():
            if not isinstance(end.code, int):
                print(end.code, file=sys.stderr)
            runtime.end_group(code)
        raise
    return 0


def main(argv: list[str]) -> int:
    """Run the command line; return the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    if given.what is None:
        parser.error("say what: info, heap PID, selftest, or the program to run: app.py")
    if given.what not in _COMMANDS and (reason := program.refusal(given.what)):
        parser.error(reason + usage.meant(given.what, _COMMANDS))
    if given.what == "info":
        return info.main(given.arguments)
    if given.what == "heap":
        return heap_command.main(given.arguments)
    if given.what == "selftest":
        from acp_mpi.selftest import command  # no rank needs it

        return command.main(given.arguments)
    return _run(given.what, given.arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
