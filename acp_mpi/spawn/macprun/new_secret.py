"""`macprun secret`: the secret of a new job, in a file."""

import sys
from collections.abc import Sequence

from acp_mpi.spawn.rendezvous import secret


def main(argv: Sequence[str]) -> int:
    """Write a secret to the file that is named, which must be new; return the exit status."""
    if len(argv) != 1:
        print("usage: macprun secret FILE", file=sys.stderr)
        return 2
    try:
        secret.create(argv[0])
    except OSError as reason:
        print(f"macprun secret: {argv[0]!r} cannot be made: {reason.strerror}", file=sys.stderr)
        return 1
    return 0
