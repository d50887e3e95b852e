"""The jobs that a benchmark program starts, each with the number of ranks that it needs."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness import Row

# Open MPI refuses root, refuses more ranks than cores, and binds each rank to one core, where
# a progress thread would compete with the program.
LAUNCHER = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OPENBLAS_NUM_THREADS": "1",  # "a NumPy loop" means one core
}
TIMEOUT = 600.0


class JobError(Exception):
    """A job failed; the text has the end of what it wrote."""


@dataclass(frozen=True, slots=True)
class Wire:
    """What every host sends on: seconds of delay, bytes per second, bytes of a socket's buffers.

    0: as this machine has it.
    """

    delay: float = 0.0
    rate: float = 0.0
    buffers: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """Rows that are measured together.

    `ranks` 0: without MPI, one process, or one on each of `hosts`. With `hosts` the job spans so
    many hosts that are made for it; MPI ranks are dealt out to them in turn.
    """

    name: str
    about: str
    ranks: int
    module: str  # its `measure(quick)` runs on every rank; what rank 0 returns counts
    environment: dict[str, str] = field(default_factory=dict)
    hosts: int = 0
    wire: Wire | None = None  # of those hosts; None: as fast as this machine


def launcher(python: str = sys.executable) -> str:
    """Return the mpiexec that belongs to a Python, else the first on the path."""
    beside = Path(python).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if not found:
        raise JobError(f"there is no mpiexec beside {python} nor on the path")
    return found


def start(job: Job, program: str, quick: bool) -> list[Row]:
    """Run a job as processes of its own and return the rows of its rank 0."""
    with tempfile.TemporaryDirectory(prefix="acp-bench-") as folder:
        result = Path(folder, "rows.json")
        command = [sys.executable, program, "--job", job.name, "--result", str(result)]
        command += ["--quick"] * quick
        if job.hosts:
            import spanning  # it needs the tests, which know how to make hosts

            output, status = spanning.run(job, command, LAUNCHER | job.environment, Path(folder))
        else:
            if job.ranks:
                command = [launcher(), "-n", str(job.ranks), *command]
            output, status = run(command, os.environ | LAUNCHER | job.environment)
        if status or not result.exists():
            tail = "\n".join(output.splitlines()[-25:])
            raise JobError(f"{job.name}: exit status {status}\n{tail}")
        return [Row.from_dict(row) for row in json.loads(result.read_text())]


def run(
    command: Sequence[str], environment: Mapping[str, str], limit: float = TIMEOUT
) -> tuple[str, int]:
    """Run in a process group of its own, so that a hanging job ends with all its ranks.

    Returns what it wrote, and its exit status: that of a kill if it did not end within `limit`.
    """
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        try:
            status = process.wait(limit)
        except BaseException as reason:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(reason, subprocess.TimeoutExpired):
                raise
            status = -signal.SIGKILL
        log.seek(0)
        return log.read(), status


def take_part(job: Job, quick: bool, result: str) -> None:
    """Measure as one process of a job; rank 0 writes the rows."""
    rank = 0
    if job.ranks:
        from mpi4py import MPI

        rank = MPI.COMM_WORLD.rank
    elif job.hosts:
        rank = int(os.environ["ACP_GROUP_RANK"])
    rows = importlib.import_module(job.module).measure(quick)
    if rank == 0:
        Path(result).write_text(json.dumps([row.as_dict() for row in rows]))
