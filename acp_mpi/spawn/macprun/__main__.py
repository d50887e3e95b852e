"""`python -m acp_mpi.spawn.macprun`: the command `macprun` of this Python."""

import sys

from acp_mpi.spawn.macprun.command import main

if __name__ == "__main__":
    sys.exit(main())
