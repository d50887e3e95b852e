"""mpi4py's own module, whatever its name stands for by now."""

import sys
from typing import Any

# Not `from mpi4py import MPI`: the package does not have the name yet while the module is loaded.
MPI: Any = sys.modules["mpi4py.MPI"]
