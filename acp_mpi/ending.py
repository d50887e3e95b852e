"""The last moments of a process whose MPI cannot be finalized."""

from __future__ import annotations

import os
import sys

from acp_mpi.engine import _engine


def without_mpi(code: int) -> None:
    """Have this process end without MPI_Finalize: it would hang (Open MPI) or assert (MPICH).

    `code` is its exit code if Python has none of its own.
    """
    sys.modules["acp_mpi._deadline"] = _Deadline()  # type: ignore[assignment]
    if not _engine.never_finalize_mpi(code):
        flush()
        os._exit(code)


class _Deadline:
    """Ends this process with its stacks if what a broken MPI has left cannot be taken apart.

    In the table of modules: it goes when all exit hooks have run, before what they have used.
    """

    def __init__(self) -> None:
        import faulthandler

        self._start = faulthandler.dump_traceback_later

    def __del__(self) -> None:
        self._start(5.0, exit=True, file=2)


def flush() -> None:
    """Bring out what was printed, as far as anybody reads it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            continue
