"""The secret of a rendezvous: where it is taken from, and where it does not stay."""

import os
import subprocess
import sys
from pathlib import Path

import launch
import pytest
from arriving import announced

import acp_mpi as acp
from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.server import Server


def keep_the_secret(digits):
    with acp.init():
        assert "ACP_SECRET" not in os.environ
        block = Path("/proc/self/environ").read_bytes()
        assert b"ACP_RENDEZVOUS=" in block
        assert digits.encode() not in block
        told = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
        assert digits not in told
        acp.sync()


def test_init_takes_the_secret_out_of_the_environment(start):
    key = bytes(range(32))
    with Server(key, 1) as server:
        env = {"ACP_MPI": "0", "ACP_RENDEZVOUS": server.address, "ACP_SECRET": key.hex()}
        job = start(launch.program(keep_the_secret, key.hex()), env)
        assert job.wait() == 0, job.output


def come_too_early_at_first(told):
    with pytest.raises(acp.Error, match="it ended before all groups had come"):
        acp.init()
    Path(told).touch()
    keep_the_secret(os.environ["ACP_SECRET"])


def test_who_could_not_join_knows_where_to_try_again(start, tmp_path):
    """And it is not a job of its own then."""
    key = bytes(range(32))
    (port,) = launch.free_ports(1)  # which the system gives to nobody between the two
    with Server(key, 2, listen=f"127.0.0.1:{port}") as server:
        env = {"ACP_MPI": "0", "ACP_RENDEZVOUS": server.address, "ACP_SECRET": key.hex()}
        told = tmp_path / "told"
        job = start(launch.program(come_too_early_at_first, str(told)), env)
        announced(server, 1)
    launch.until(told.exists, job)  # where nobody listens any more
    with Server(key, 1, listen=server.address) as server:
        assert job.wait() == 0, job.output
        assert len(server.wait()) == 1


def test_a_secret_file_that_is_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "secret", 0o600)
    with pytest.raises(acp.Error, match="not a regular file"):
        secret.read(tmp_path / "secret")


def test_a_secret_in_a_command_line_is_refused_and_not_repeated(fails, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import acp_mpi as acp\nacp.init()\n")
    said = fails([sys.executable, str(program), "--acp-secret", "ab" * 32], {"ACP_MPI": "0"})
    assert "can read command lines" in said
    assert "ab" * 32 not in said
