"""`macprun serve`: a rendezvous for groups that are started by hand."""

import argparse
import resource
import sys
from collections.abc import Mapping, Sequence

from acp_mpi.config import FOR_EVER
from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.server import Server
from acp_mpi.launch.macprun.remarks import Remarks
from acp_mpi.launch.macprun.table import Table
from acp_mpi.util import usage

_TICK = 0.2  # s between two looks at the arrivals, on a terminal


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Serve one job and return the exit status: 0 when all have joined and left, else 1.

    Prints `ACP_RENDEZVOUS=host:port` once it listens: what the processes of the job need in their
    environment, beside the secret. On a terminal a table shows the arrivals.
    """
    options = _parser().parse_args(argv)
    table = Table(sys.stderr)
    Remarks(table)
    # each member holds a connection until all are there
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        key = secret.read(options.secret_file) if options.secret_file else secret.load(environ)
        with Server(key, options.groups, listen=options.listen, timeout=options.timeout) as server:
            print(f"ACP_RENDEZVOUS={server.address}", flush=True)
            try:
                while table.show(server.arrivals) and not server.settled(_TICK):
                    pass
            finally:
                table.hide()
            server.wait()
    except (Error, OSError) as reason:
        print(f"rendezvous: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> usage.Parser:
    parser = usage.Parser(
        prog="macprun serve",
        description="Let the groups of one job find each other, then end.",
    )
    parser.add_argument(
        "--groups",
        type=_groups,
        required=True,
        metavar="N|NAME=SIZE,...",
        help="how many groups the job has, or their names and sizes in the order of their ranks",
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="where to listen, port 0 for any free one (default: %(default)s)",
    )
    parser.add_argument(
        "--secret-file",
        metavar="F",
        help="file of mode 0600 with the job's secret (default: ACP_SECRET_FILE)",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="seconds until all must be there (default: %(default)g)",
    )
    return parser


def _groups(text: str) -> int | dict[str, int]:
    try:
        if text.isdigit() and int(text) > 0:
            return int(text)
        sizes = {
            name: int(size) for name, _, size in (item.rpartition("=") for item in text.split(","))
        }
        if len(sizes) == text.count(",") + 1 and all(sizes) and min(sizes.values()) > 0:
            return sizes
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(
        f"{text!r}: expected a number of groups, or different names with sizes: ocean=8,ice=2"
    )


def _seconds(text: str) -> float:
    try:
        if (seconds := float(text)) > 0:
            return min(seconds, FOR_EVER)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r}: expected a number of seconds above 0")
