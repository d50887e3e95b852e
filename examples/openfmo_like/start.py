"""Starting the job: a job file for macprun, and macprun in place of this process."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence

from .cast import MASTER, SERVER, WORKER

_SIGNS = ("ACP_GROUP", "ACP_MPI", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def belongs_to_a_job(environment: Mapping[str, str]) -> bool:
    """Return whether macprun, or mpirun, has started this process."""
    return any(name in environment for name in _SIGNS)


def job_file(options: argparse.Namespace, arguments: Sequence[str]) -> str:
    """Return macprun's input: master and servers without MPI, groups of workers by mpirun.

    The job goes on without a group of workers that has died.
    """
    command = [sys.executable, "-m", __package__, *arguments]
    workers = [f"{WORKER}{number + 1}" for number in range(options.groups)]
    return "\n".join(
        [
            _group(MASTER, 1, command),
            _group(SERVER, options.servers, command),
            *(
                _group(name, options.group_size, command, "mpi = true\noptional = true\n")
                for name in workers
            ),
        ]
    )


def _group(name: str, processes: int, command: Sequence[str], more: str = "") -> str:
    words = ", ".join(json.dumps(word, ensure_ascii=False) for word in command)
    return f'[[group]]\nname = "{name}"\nprocesses = {processes}\ncommand = [{words}]\n{more}'


def become_macprun(text: str) -> None:
    """Run macprun with this job file in place of this process."""
    file = os.memfd_create("job.toml", 0)
    os.write(file, text.encode())
    sys.stdout.flush()
    macprun = [sys.executable, "-m", "acp_mpi.launch.macprun", f"/proc/self/fd/{file}"]
    os.execv(macprun[0], macprun)
