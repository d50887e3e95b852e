"""The environments of both MPIs, for programs that measure with both in one run."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness import environment, progress
from jobs import JobError

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import launch

NAMES = {"mpich": "MPICH", "openmpi": "Open MPI"}


def pythons(other: str | None) -> dict[str, str]:
    """Return a Python for each MPI there is: this one, and the other, by default the one beside."""
    mine = launch.mpi_name()
    (beside,) = NAMES.keys() - {mine}
    python = other or os.path.join(sys.prefix, os.pardir, beside, "bin", "python")
    if not os.path.exists(python):
        if other:
            raise JobError(f"--other {other}: there is no such Python")
        progress(f"only one MPI: there is no {os.path.normpath(python)}")
        return {mine: sys.executable}
    if launch.mpi_name(python) == mine:
        raise JobError(f"{python} has the same MPI as this Python: {NAMES[mine]}")
    return {mine: sys.executable, beside: os.path.abspath(python)}


def surroundings(mpis: dict[str, str]) -> dict[str, Any]:
    """Return what `environment` finds, and which MPI the other Python has."""
    found = environment()
    code = "import sys; sys.path.append(sys.argv[1]); import harness; print(harness.mpi_version())"
    for python in mpis.values():
        if python != sys.executable:
            command = [python, "-P", "-c", code, os.path.dirname(__file__)]
            said = subprocess.run(command, check=True, capture_output=True, text=True)
            found["the other MPI"] = said.stdout.strip()
    return found
