"""Put to a rank that computes, in a job of two ranks; print what that gave, as JSON.

    mpiexec -n 2 python progress_process.py SECONDS [helped]

With `helped` rank 1 computes inside `acp.progress()`.
"""

import contextlib
import json
import sys
import time

import numpy as np
from mpi4py import MPI
from rows.activity import Activity, compute
from rows.mpi_side import Window

import acp_mpi as acp

LARGE = 1 << 20
SIZES = {"8 B": 8, "1 MiB": LARGE}


def main(seconds: float, helped: bool) -> None:
    """Measure on both ranks; rank 0 prints seconds for a put, and turns a second of rank 1."""
    comm = MPI.COMM_WORLD
    figures, turns = {}, 0
    with Window(comm, LARGE, create=True) as window:
        for name, size in SIZES.items():
            comm.Barrier()
            if comm.rank == 0:
                time.sleep(0.002)  # it has begun
                figures[name] = window.mean_put(1, np.ones(size, np.uint8), seconds / 2)
            else:
                with acp.progress() if helped else contextlib.nullcontext():
                    turns += compute(Activity.NUMPY, time.perf_counter() + seconds)
            comm.Barrier()
    figures["turns"] = comm.bcast(turns, 1) / (len(SIZES) * seconds)
    if comm.rank == 0:
        print(json.dumps(figures))


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:] == ["helped"])
