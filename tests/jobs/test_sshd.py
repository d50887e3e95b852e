"""macprun over a real sshd: one of the test's own, on a free port of the loopback interface."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import launch
import pytest
from macprunning import variables

import acp_mpi as acp

MACPRUN = Path(sys.executable).with_name("macprun")
PRIVILEGES = Path("/run/sshd")  # where sshd of Debian puts what it trusts least

_CONFIGURATION = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile {folder}/pid
AuthorizedKeysFile {folder}/user.pub
PasswordAuthentication no
StrictModes no
UsePAM no
"""


def why_not():
    """Return why no sshd can be started, or ""."""
    for name in ("sshd", "ssh", "ssh-keygen"):
        if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            return f"there is no {name} (Debian: openssh-server)"
    if not PRIVILEGES.is_dir() and os.geteuid() != 0:
        return f"sshd needs {PRIVILEGES}, which only root can make"
    return ""


@pytest.fixture
def ssh(start, tmp_path):
    """The command line that reaches the sshd: any host name stands for this one."""
    if reason := why_not():
        pytest.skip(reason)
    if os.geteuid() == 0:
        PRIVILEGES.mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    (port,) = launch.free_ports(1)
    conf = tmp_path / "sshd_config"
    conf.write_text(_CONFIGURATION.format(port=port, folder=tmp_path))
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    server = start([sshd, "-D", "-e", "-f", str(conf)])
    launch.until(lambda: "listening" in server.output, server)
    options = ["HostName=127.0.0.1", f"Port={port}", f"IdentityFile={tmp_path / 'user'}"]
    options += ["StrictHostKeyChecking=no", f"UserKnownHostsFile={tmp_path / 'known'}"]
    options += ["IdentitiesOnly=yes", "BatchMode=yes", "LogLevel=ERROR"]
    yield f"ssh -F none {' '.join(f'-o {option}' for option in options)}"
    # It writes its title over the environment by which processes of a job are known.
    os.kill(server.pid, signal.SIGTERM)
    server.wait(20)


def join(folder):
    """Join, and say what this process has of the environment of macprun."""
    with acp.init():
        acp.fetch_add8(acp.query_starter_ga(0), 1)
        acp.sync()
        assert acp.fetch_add8(acp.query_starter_ga(0), 0) == acp.procs()
        acp.sync()
        assert os.getcwd() == folder
        secret = any(
            "SECRET" in word for word in Path("/proc/self/cmdline").read_text().split("\0")
        )
        assert not secret
        print(f"rank {acp.rank()} has {os.environ['COLOUR']}", bool(os.environ.get("SSH_CLIENT")))


def wait_for_ever():
    acp.init()
    print("joined", flush=True)
    acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1)


def macprun(ssh, function, *arguments):
    """Return the command line of two processes on a host that ssh reaches, and one beside them."""
    # Links of a job on what seem two hosts would look for the other's network.
    words = [MACPRUN, "--ssh", ssh, "--listen", "127.0.0.1:0"]
    words += ["-n", 2, "--name", "far", "--hosts", "elsewhere:2"]
    words += [*launch.program(function, *arguments), ":", "-n", 1, "--name", "near"]
    return [str(word) for word in (*words, *launch.program(function, *arguments))]


def test_processes_are_started_over_a_real_sshd(ssh, passes, tmp_path):
    folder = str(tmp_path.resolve())
    output = passes(macprun(ssh, join, folder), {"COLOUR": "two words"}, 60.0)
    for rank, far in ((0, True), (1, True), (2, False)):
        assert re.search(rf"rank {rank} has two words {far}$", output, re.MULTILINE), output


def _of_sshd(pid):
    """Return whether a process was started by way of an sshd."""
    return any(word.startswith(b"SSH_CLIENT=") for word in variables(pid))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_behind_an_sshd_end_with_macprun(ssh, start, number):
    job = start(macprun(ssh, wait_for_ever))
    launch.until(lambda: job.output.count("joined") == 3, job)
    assert any(map(_of_sshd, job.processes()))
    os.kill(job.pid, number)
    job.wait()
    launch.until(lambda: not job.processes())


def test_an_sshd_that_refuses_is_an_error_that_says_so(ssh, fails, tmp_path):
    (tmp_path / "user.pub").write_text("")
    output = fails(macprun(ssh, wait_for_ever), limit=60.0)
    assert "Permission denied" in output
