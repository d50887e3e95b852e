"""The command line of `macprun`: groups separated by colons, as `mpiexec` has them, or a file."""

import argparse
import os
from collections.abc import Sequence
from typing import NoReturn

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.address import parse_address
from acp_mpi.launch.macprun import jobfile
from acp_mpi.launch.macprun.plan import Group, Plan, UsageError, check, count, variable, words
from acp_mpi.util import usage

COMMANDS = ("check", "serve", "secret", "status", "kill")
_USAGE = """
  macprun [options] -n N [group options] PROGRAM [argument ...] [: -n N ... PROGRAM ...] ...
  macprun [options] [-np N] [-nodefile F] FILE
  macprun check ...     show what would be started, and where
  macprun serve ...     run only the rendezvous, for groups started by hand
  macprun secret FILE   write the secret of a new job, for the same
  macprun status [PID]  show running jobs: groups, ranks, hosts, what each waits for
  macprun kill [PID]    end a running job
"""
_EPILOG = """A group without --mpi is started by macprun itself, and without MPI. FILE is TOML with
a table [[group]] for each, or the input of the C library's macprun. Output is labelled
[NAME.RANK]. The exit code is that of the group which failed first."""


class _Parser(usage.Parser):
    """Says what is wrong by an exception."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.with_hint(message)}; see macprun --help")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options of the job, `groups` of them among these: their words."""
    first, *others = _split(argv)
    options = _parsed(_job_parser(), first)
    if options.n is None and not options.rest:
        raise UsageError("nothing to start: give -n N PROGRAM, or a job file; see macprun --help")
    if options.listen is not None:
        _check_address(options.listen)
    groups = [options]
    parser = _group_parser()
    groups += [_parsed(parser, group) for group in others]
    options.groups = groups
    return options


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    options = parser.parse_args(argv)
    if options.rest[:1] == ["--"]:  # says that no options follow, and is not a program
        del options.rest[0]
    return options


def plan(options: argparse.Namespace) -> Plan:
    """Return what is to be started."""
    if options.n is None:
        (file, *extra) = options.rest
        hint = "" if os.path.exists(file) else usage.meant(file, COMMANDS, "`macprun {}`")
        if hint:
            raise UsageError(f"there is no command and no job file {file!r}{hint}")
        if extra or len(options.groups) > 1:
            raise UsageError(
                f"{file!r} and {(*extra, ':')[0]!r}: expected one job file; groups given on the "
                "command line begin with -n"
            )
        made = jobfile.read(file)
    else:
        made = Plan(tuple(_group(number, group) for number, group in enumerate(options.groups)))
    changes = {
        "nodefile": options.nodefile,
        "starter_size": options.starter_size,
        "output_dir": options.output_dir,
        "ssh": words(options.ssh, "--ssh") if options.ssh else None,
        "delegates": options.delegates or None,
    }
    made = made._replace(**{name: value for name, value in changes.items() if value is not None})
    if options.np is not None and count(options.np, "-np") != made.size:
        raise UsageError(f"-np {options.np}: the groups have {made.size} processes in all")
    return check(made)


def _check_address(text: str) -> None:
    try:
        parse_address(text)
    except Error as reason:
        raise UsageError(f"--listen: {reason}") from None


def _split(argv: Sequence[str]) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    for word in argv:
        if word == ":":
            groups.append([])
        else:
            groups[-1].append(word)
    return groups


def _group(number: int, options: argparse.Namespace) -> Group:
    if options.n is None:
        raise UsageError(f"group {number} has no number of processes: begin it with -n N")
    return Group(
        name=f"group{number}" if options.name is None else options.name,
        size=count(options.n, "-n"),
        command=tuple(options.rest),
        has_mpi=options.mpi,
        hosts=tuple(filter(None, (options.hosts or "").split(","))),
        env=dict(variable(text, "--env") for text in options.env or ()),
        directory=options.wdir,
        launcher=words(options.launcher, "--launcher") if options.launcher else (),
        optional=options.optional,
    )


def _group_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="macprun", add_help=False, allow_abbrev=False)
    group = parser.add_argument_group("of a group")
    group.add_argument("-n", metavar="N", help="number of its processes")
    group.add_argument("--name", help="its name (default: group0, group1, ...)")
    group.add_argument("--mpi", action="store_true", help="started by an MPI launcher, with MPI")
    group.add_argument("--hosts", metavar="H[:N],...", help="where it runs")
    group.add_argument("--env", metavar="NAME=VALUE", action="append", help="may be repeated")
    group.add_argument("--wdir", metavar="DIR", help="its working directory")
    group.add_argument(
        "--launcher", metavar="LINE", help="its MPI launcher and options of that (default: mpiexec)"
    )
    group.add_argument(
        "--optional", action="store_true", help="its loss after joining is not a failure of the job"
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _job_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="macprun",
        usage=_USAGE,
        epilog=_EPILOG,
        parents=[_group_parser()],
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    job = parser.add_argument_group("of the job")
    job.add_argument("-np", metavar="N", help="number of processes of all groups in FILE")
    job.add_argument("-nodefile", "--nodefile", metavar="F", help="nodes, one a line: node1:4")
    job.add_argument("--ssh", metavar="LINE", help="starts processes on other hosts (ssh)")
    job.add_argument("--starter-size", metavar="BYTES", help="starter memory of each rank")
    job.add_argument("--output-dir", metavar="DIR", help="keep the output in DIR/NAME/RANK.out")
    job.add_argument("--delegates", action="store_true", help="a delegate on each node")
    job.add_argument("--listen", metavar="HOST:PORT", help="where the groups meet")
    job.add_argument("--dry-run", action="store_true", help="show command lines and nodes only")
    return parser
