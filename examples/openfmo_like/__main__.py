"""`python -m examples.openfmo_like`: start a job, or be one of its processes."""

import os
import sys

if __name__ == "__main__":
    # Before anything imports NumPy: a worker has one thread; with more the last bits would differ.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    from .program import main

    sys.exit(main(sys.argv[1:]))
