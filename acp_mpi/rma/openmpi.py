"""A quiet window of Open MPI, and the settings that it needs."""

from __future__ import annotations

import os
import sys

from acp_mpi.util._system import memfd_create

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def make_window(memory: Any, comm: Any) -> Any:
    """Make a window over `memory`, unit 1, and keep a false alarm off stderr. Collective.

    Open MPI calls it an error that its own UCX finds no network. The variable that would silence
    it (`OMPI_MCA_osc=^ucx`) comes too late once MPI is initialised, and would switch the road off
    where there is a network. All other output follows at the end.
    """
    from mpi4py import MPI

    if sys.__stderr__ is None:  # closed when Python began: the number may be of a file of MPI's
        return MPI.Win.Create(memory, 1, comm=comm)
    before, kept = os.dup(2), memfd_create("stderr")
    os.dup2(kept, 2)
    try:
        return MPI.Win.Create(memory, 1, comm=comm)
    finally:
        os.dup2(before, 2)
        text = os.pread(kept, os.fstat(kept).st_size, 0)
        os.close(before)
        os.close(kept)
        os.write(2, _without_alarm(text))


def _without_alarm(text: bytes) -> bytes:
    lines, alarm = [], False
    for line in text.splitlines(keepends=True):
        if alarm and not line.strip():  # the empty line after it
            alarm = False
            continue
        alarm = b"osc_ucx_component.c:" in line and b"query failed" in line
        if not alarm:
            lines.append(line)
    return b"".join(lines)
