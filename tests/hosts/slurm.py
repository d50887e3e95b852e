"""Slurm on the hosts of a network: one node each, and the switch as the host where users log in.

Its programs are those of the system (Debian: slurmctld, slurmd, slurm-client, munge). Ports are
its own, for each network is one by itself; files are in a folder of the test.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import launch
import pages
import pytest
from hosts.network import Network

_PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "salloc", "munged")

_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={switch.name}({switch.address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/%n.spool
TmpFS={folder}/%n.tmp
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault={mpi}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def script_of_page(word: str) -> str:
    """Return the batch script of the page on clusters that has this word."""
    texts = [block.text for block in pages.blocks("docs/clusters.md")]
    (found,) = (text for text in texts if "#SBATCH" in text and word in text)
    return found


def why_not() -> str:
    """Return why there is no Slurm here, or "" if there is."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"Slurm needs {', '.join(missing)}" if missing else ""


class Slurm:
    """A Slurm that runs: its users are at the switch."""

    def __init__(self, network: Network, folder: Path, environment: dict[str, str]) -> None:
        self.network, self.folder, self.environment = network, folder, environment
        self.daemons: dict[str, launch.Job] = {}
        """munged, slurmctld, and the slurmd of each host by its name."""

    def command(self, *words: object) -> list[str]:
        """Return the command line that runs a command where users log in."""
        return self.network.switch.command([str(word) for word in words])

    def ask(self, *words: object, env: dict[str, str] | None = None) -> str:
        """Return what a command of Slurm prints, "" if it fails."""
        done = subprocess.run(
            self.command(*words),
            env=os.environ | self.environment | (env or {}),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return "" if done.returncode else done.stdout.strip()

    def submit(self, script: str, *options: object, env: dict[str, str] | None = None) -> "Batch":
        """Hand in a batch script, whose programs are those beside this Python first."""
        path = self.folder / f"batch-{len(list(self.folder.glob('batch-*.sh')))}.sh"
        path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
        out = path.with_suffix(".out")
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        words = ("sbatch", "--parsable", "--no-requeue", "-o", out, *options, path)
        number = self.ask(*words, env={"PATH": programs, **(env or {})})
        assert number, "sbatch has refused the script; see slurmctld's output"
        return Batch(self, number, out)


class Batch:
    """A batch script that was handed in."""

    def __init__(self, slurm: Slurm, number: str, out: Path) -> None:
        self._slurm, self.number, self._out = slurm, number, out

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._out.read_text(errors="replace") if self._out.exists() else ""

    @property
    def state(self) -> str:
        """PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, …"""
        said = self._slurm.ask("scontrol", "-o", "show", "job", self.number)
        found = re.search(r"JobState=(\w+)", said)
        return found[1] if found else ""

    def await_output(self, text: str, times: int = 1) -> None:
        """Return when it has printed something so often."""
        with self._told():
            launch.until(lambda: self.output.count(text) >= times, limit=90.0)

    def await_end(self) -> str:
        """Return its state when it has ended."""
        unfinished = ("", "PENDING", "CONFIGURING", "RUNNING", "COMPLETING")
        with self._told():
            launch.until(lambda: self.state not in unfinished, limit=90.0)
        return self.state

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except AssertionError:
            raise AssertionError(
                f"batch job {self.number} is {self.state}; its output:\n{self.output}"
            ) from None


@contextlib.contextmanager
def running(
    network: Network,
    folder: Path,
    start: Callable[..., launch.Job],
    environment: dict[str, str] | None = None,
    **options: object,
) -> Iterator[Slurm]:
    """Have Slurm run on a network; its daemons do not wait for anything at the end."""
    if reason := why_not():
        pytest.skip(reason)
    slurm = serve(network, folder, start, **options)
    slurm.environment |= environment or {}
    try:
        yield slurm
    finally:
        for daemon in slurm.daemons.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon.pid, signal.SIGKILL)


def serve(
    network: Network,
    folder: Path,
    start: Callable[..., launch.Job],
    *,
    slots: int = 2,
    mpi: str = "none",
    renamed: bool = False,
) -> Slurm:
    """Start it, and return it when all nodes are there.

    `mpi` is what srun does for MPI where nobody says it; `renamed`: it calls nodes n1, n2 and so
    on, which are names of no hosts.
    """
    key, conf = folder / "munge.key", folder / "slurm.conf"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    nodes = {f"n{host.number}" if renamed else host.name: host for host in network}
    names = ",".join(nodes)
    text = _CONFIGURATION.format(switch=network.switch, folder=folder, names=names, mpi=mpi)
    for name, host in nodes.items():
        text += f"NodeName={name} NodeHostname={host.name} NodeAddr={host.address} "
        text += f"CPUs={slots} State=UNKNOWN\n"
    conf.write_text(text)
    # Else it looks for the kind among the mounts, which a namespace has only the first of.
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    place = {"SLURM_CONF": str(conf)}
    files = [f"--{name}={folder}/munge.{name}" for name in ("socket", "pid-file", "log-file")]
    files += [f"--key-file={key}", f"--seed-file={folder}/munge.seed"]
    slurm = Slurm(network, folder, place)
    munged = start(network.switch.command(["munged", "--foreground", "--force", *files]))
    slurm.daemons["munged"] = munged
    launch.until((folder / "munge.socket").exists, munged)
    control = network.switch.command(["slurmctld", "-D", "-f", str(conf)])
    slurm.daemons["slurmctld"] = start(control, place)
    for name, host in nodes.items():
        for kind in ("spool", "tmp"):  # PMIx fails where another Slurm's step left its folder
            (folder / f"{name}.{kind}").mkdir()
        daemon = ["slurmd", "-D", "-f", str(conf), "-N", name]
        slurm.daemons[host.name] = start(host.command(daemon), place)

    def all_idle() -> bool:
        for daemon in slurm.daemons.values():
            assert daemon.running, daemon.output
        return slurm.ask("sinfo", "-h", "-t", "idle", "-o", "%D") == str(len(network.hosts))

    launch.until(all_idle, limit=90.0)
    return slurm


def pmi(slurm: Slurm, wanted: str = "") -> tuple[str, str]:
    """Return what `srun --mpi=` is for the MPI of this Python, and why it cannot be, or ""."""
    wanted = wanted or ("pmi2" if launch.mpi_name() == "mpich" else "pmix")
    tried = subprocess.run(
        slurm.command("srun", f"--mpi={wanted}", "-n", "1", "true"),
        env=os.environ | slurm.environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return wanted, tried.stderr.strip() if tried.returncode else ""
