"""Slurm on the hosts of a network: one node each, and the switch as the host where users log in.

Its programs are those of the system (Debian: slurmctld, slurmd, slurm-client, munge). Ports are
its own, for each network is one by itself; files are in a folder of the test.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import launch
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
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def why_not() -> str:
    """Return why there is no Slurm here, or "" if there is."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"Slurm needs {', '.join(missing)}" if missing else ""


def pmi(environment: dict[str, str], network: Network) -> tuple[str, str]:
    """Return what `srun --mpi` is to be for the MPI of this Python, and why it cannot be, or ""."""
    wanted = "pmi2" if launch.mpi_name() == "mpich" else "pmix"
    command = network.switch.command(["srun", f"--mpi={wanted}", "-n", "1", "true"])
    tried = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    return wanted, tried.stderr.strip() if tried.returncode else ""


def serve(
    network: Network, folder: Path, start: Callable[..., launch.Job], slots: int = 2
) -> dict[str, str]:
    """Start it; return the environment of those who use it when all nodes are there."""
    key, conf = folder / "munge.key", folder / "slurm.conf"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    names = ",".join(host.name for host in network)
    text = _CONFIGURATION.format(switch=network.switch, folder=folder, names=names)
    for host in network:
        text += f"NodeName={host.name} NodeAddr={host.address} CPUs={slots} State=UNKNOWN\n"
    conf.write_text(text)
    # Else it looks for the kind among the mounts, which a namespace has only the first of.
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    place = {"SLURM_CONF": str(conf)}
    files = [f"--{name}={folder}/munge.{name}" for name in ("socket", "pid-file", "log-file")]
    files += [f"--key-file={key}", f"--seed-file={folder}/munge.seed"]
    begin = [start(network.switch.command(["munged", "--foreground", "--force", *files]))]
    launch.until((folder / "munge.socket").exists, begin[0])
    begin.append(start(network.switch.command(["slurmctld", "-D", "-f", str(conf)]), place))
    for host in network:
        (folder / f"{host.name}.spool").mkdir()
        daemon = ["slurmd", "-D", "-f", str(conf), "-N", host.name]
        begin.append(start(host.command(daemon), place))

    def all_idle() -> bool:
        for job in begin:
            assert job.running, job.output
        command = network.switch.command(["sinfo", "-h", "-t", "idle", "-o", "%D"])
        said = subprocess.run(command, env=place, capture_output=True, text=True, check=False)
        return said.stdout.strip() == str(len(network.hosts))

    launch.until(all_idle)
    return place
