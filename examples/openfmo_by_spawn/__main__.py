"""`python -m openfmo_by_spawn`: be the master, or a process that it has spawned."""

import os
import sys

if __name__ == "__main__":
    # Before anything imports NumPy, and here: MPI's Spawn need not hand on the environment.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    from .program import main

    sys.exit(main(sys.argv[1:]))
