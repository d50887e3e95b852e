"""Write the secret of a new job: `python -m acp_mpi.spawn.new_secret FILE`."""

import sys
from collections.abc import Sequence

from acp_mpi.spawn import secret


def main(argv: Sequence[str]) -> int:
    """Write a secret to the file that is named, which must be new; return the exit status."""
    if len(argv) != 1:
        print("usage: python -m acp_mpi.spawn.new_secret FILE", file=sys.stderr)
        return 2
    try:
        secret.create(argv[0])
    except OSError as reason:
        print(f"new_secret: {argv[0]!r} cannot be made: {reason.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
