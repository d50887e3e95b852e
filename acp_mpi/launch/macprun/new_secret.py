"""`macprun secret`: the secret of a new job, in a file."""

import sys
from collections.abc import Sequence

from acp_mpi.job.rendezvous import secret
from acp_mpi.util import usage


def main(argv: Sequence[str]) -> int:
    """Write a secret to the file that is named, which must be new; return the exit status."""
    parser = usage.Parser(
        prog="macprun secret",
        description="Write the secret of a new job: 256 random bits that only you may read.",
    )
    parser.add_argument("file", metavar="FILE", help="does not exist yet")
    file = parser.parse_args(argv).file
    try:
        secret.create(file)
    except OSError as reason:
        print(f"macprun secret: {file!r} cannot be made: {reason.strerror}", file=sys.stderr)
        return 1
    return 0
