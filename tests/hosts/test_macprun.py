"""`macprun` over several hosts: launchers and the remote shell reach them by an agent."""

import contextlib
import os
import re
import signal
import sys
from pathlib import Path

import launch
import pytest
from hosts.group import join

import acp_mpi as acp

pytestmark = pytest.mark.hosts
MACPRUN = Path(sys.executable).with_name("macprun")


def wait_for_ever():
    acp.init()
    print("joined", flush=True)
    acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1)


def started(network, function, options=()):
    """Return the command line of two groups on all hosts, by macprun at the switch."""
    mpich = launch.mpi_name() == "mpich"
    line = f"{Path(sys.executable).with_name('mpiexec')} "
    line += (
        f"-launcher ssh -launcher-exec {network.bare_agent} -localhost {network.switch.address} "
        "-genv UCX_TLS tcp,self"
        if mpich
        else f"--prtemca plm_ssh_agent {network.bare_agent}"
    )
    hosts = ",".join(host.name for host in network)
    words = [
        *(MACPRUN, "--ssh", network.bare_agent, *options),
        *("-n", len(network.hosts), "--name", "apart", "--hosts", hosts),
        *launch.program(function),
        *(":", "-n", 2, "--mpi", "--name", "ocean", "--hosts", hosts, "--launcher", line),
        *launch.program(function),
    ]
    return network.switch.command([str(word) for word in words])


@pytest.mark.smoke
def test_processes_with_and_without_mpi_start_on_other_hosts(two_hosts, passes):
    a, b = (host.name for host in two_hosts)
    output = passes(started(two_hosts, join))
    for number, (label, name) in enumerate(
        (("apart.0", a), ("apart.1", b), ("ocean.0", a), ("ocean.1", b))
    ):
        assert f"[{label}] rank {number} of 4 on {name}\n" in output


def find_the_delegate():
    with acp.init():
        d = acp.delegate(start=False)
        name = os.uname().nodename
        assert d.call("platform:node").wait() == name
        rows = acp.allgather((name, d.rank))
        assert len(set(rows)) == len({rank for _, rank in rows}) == 2
        assert d.allreduce(1.0).wait() == 4.0
        print("found", flush=True)


def test_each_host_has_a_delegate(two_hosts, passes):
    output = passes(started(two_hosts, find_the_delegate, ["--delegates"]))
    assert output.count("found") == 4


def texts(processes):
    """Return the command lines and environments of processes, as far as they live."""
    for pid in processes:
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                yield Path(f"/proc/{pid}/{name}").read_bytes()


def test_no_launcher_takes_the_secret_to_other_hosts(two_hosts, start, passes, tmp_path):
    """It is in a file of the user's, which goes with the job."""
    job = start(started(two_hosts, wait_for_ever), {"HOME": str(tmp_path)})
    launch.until(lambda: len(re.findall("joined", job.output)) == 4, job)
    (file,) = (tmp_path / ".acp_mpi").iterdir()
    secret = file.read_bytes().strip()
    seen = list(texts([*job.processes(), job.pid]))
    assert len(secret) == 64
    assert any(str(file).encode() in text for text in seen)
    assert not any(secret in text for text in seen)
    passes(two_hosts.switch.command([MACPRUN, "kill", str(job.pid)]))
    job.wait()
    assert not file.exists()


SETTINGS = {
    name: f"{name} of the user"
    for name in ("MY_OWN", "UCX_FOO", "OMPI_MCA_foo", "PRTE_MCA_foo", "MPIR_CVAR_FOO",
                 "OMP_NUM_THREADS", "LC_ALL")
}  # fmt: skip


def show_settings():
    print({name: os.environ.get(name) for name in SETTINGS} == SETTINGS, flush=True)
    print("host", os.environ.get("XDG_OF_THE_HOST"), flush=True)


def test_the_environment_goes_along_to_other_hosts(two_hosts, passes):
    output = passes(
        started(two_hosts, show_settings),
        SETTINGS | {"XDG_OF_THE_HOST": "no", "BASH_FUNC_f%%": "() { :; }"},
    )
    for label in ("apart.0", "apart.1", "ocean.0", "ocean.1"):
        assert f"[{label}] True\n" in output
    assert "[apart.1] host None\n" in output


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_on_other_hosts_end_with_macprun(two_hosts, start, number):
    job = start(started(two_hosts, wait_for_ever))
    launch.until(lambda: len(re.findall("joined", job.output)) == 4, job)
    os.kill(job.pid, number)
    job.wait()
    launch.until(lambda: not job.processes())


def states(network, job, passes):
    """Return what macprun at the switch says of each rank: {label: (host, state)}."""
    text = passes(network.switch.command([MACPRUN, "status", str(job.pid)]))
    lines = re.findall(r"^ *\d+ +(\S+) +(\S+) +\d+ +(.*)$", text, re.MULTILINE)
    return {label: (host, state) for label, host, state in lines}


def test_what_ranks_on_other_hosts_wait_for_is_shown_and_kill_ends_them(two_hosts, start, passes):
    a, b = two_hosts
    job = start(started(two_hosts, wait_for_ever))
    launch.until(lambda: len(re.findall("joined", job.output)) == 4, job)

    def shown(on_b):
        places = {"apart.0": a, "apart.1": b, "ocean.0": a, "ocean.1": b}
        wanted = {
            label: (host.name, on_b if host is b else "is in wait_until")
            for label, host in places.items()
        }
        launch.until(lambda: states(two_hosts, job, passes) == wanted, job)

    shown("is in wait_until")
    b.freeze()
    shown("does not answer")
    b.thaw()
    shown("is in wait_until")
    passes(two_hosts.switch.command([MACPRUN, "kill", str(job.pid)]))
    assert job.wait() == 128 + signal.SIGTERM, job.output
    launch.until(lambda: not job.processes())
