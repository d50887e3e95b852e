"""The file with the secret of a job on several hosts: made, brought to them, and removed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from acp_mpi.job.rendezvous import secret
from acp_mpi.launch.macprun import secret_file
from acp_mpi.launch.macprun.meeting import Meeting
from acp_mpi.launch.macprun.secret_file import SecretFile

KEY = bytes(range(32))


@pytest.fixture
def home(tmp_path):
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


def test_the_file_is_the_user_s_alone_and_goes_with_its_job(home):
    path = secret_file.path_of(Meeting("", KEY), home)
    file = SecretFile(path, KEY)
    assert path == f"{home['HOME']}/.acp_mpi/{secret.job_id(KEY).hex()}.secret"
    assert (os.stat(path).st_mode & 0o777, secret.read(path)) == (0o600, KEY)
    with pytest.raises(FileExistsError):
        SecretFile(path, KEY)
    file.remove()
    assert os.listdir(f"{home['HOME']}/.acp_mpi") == []


def test_without_a_home_the_file_lies_with_the_session(tmp_path):
    path = secret_file.path_of(
        Meeting("", KEY), {"HOME": "/nowhere", "XDG_RUNTIME_DIR": str(tmp_path)}
    )
    assert path.startswith(f"{tmp_path}/acp_mpi/")


def test_the_next_job_removes_the_file_of_one_that_was_killed(home):
    path = secret_file.path_of(Meeting("", KEY), home)
    program = f"""
from acp_mpi.launch.macprun.secret_file import SecretFile
file = SecretFile({path!r}, bytes({list(KEY)}))
print("made", flush=True)
input()
"""
    maker = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert maker.stdout.readline() == b"made\n"
    other = Meeting("", bytes(32))
    SecretFile(secret_file.path_of(other, home), bytes(32)).remove()
    assert os.path.exists(path), "its job lives"
    maker.kill()
    maker.communicate()
    SecretFile(secret_file.path_of(other, home), bytes(32)).remove()
    assert not os.path.exists(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="a home directory that others lack needs root here")
def test_hosts_without_that_home_have_it_brought_and_taken_away(home):
    file = SecretFile(secret_file.path_of(Meeting("", KEY), home), KEY)
    place = os.path.dirname(file.path)
    elsewhere = f"mount -t tmpfs none {place} && echo $$ > {home['HOME']}/shell && exec sh"
    assert file.bring([["unshare", "--mount", "sh", "-c", elsewhere]], home) == []
    shell = Path(home["HOME"], "shell").read_text().strip()
    there = Path(f"/proc/{shell}/root{file.path}")
    assert (there.stat().st_mode & 0o777, there.read_text().strip()) == (0o600, KEY.hex())
    seen = os.open(there.parent, os.O_RDONLY)
    file.remove()
    assert os.listdir(seen) == []
    os.close(seen)


def test_where_it_cannot_be_brought_that_is_said(home):
    file = SecretFile(secret_file.path_of(Meeting("", KEY), home), KEY)
    (remark,) = file.bring([["false"]], home)
    assert "false did not bring the secret" in remark
    assert file.path in remark
    file.remove()


def test_under_slurm_one_step_brings_it_to_all(tmp_path):
    for name in ("srun", "ssh"):
        tmp_path.joinpath(name).write_text("#!/bin/sh\n")
        tmp_path.joinpath(name).chmod(0o700)
    env = {"PATH": str(tmp_path)}
    assert secret_file.carriers(["a", "b", "a"], ["ssh"], env) == [
        ("ssh", "a", "sh"), ("ssh", "b", "sh")
    ]  # fmt: skip
    (command,) = secret_file.carriers(["a", "b", "a"], ["ssh"], env | {"SLURM_JOB_ID": "1"})
    assert command[0] == "srun"
    assert "--nodelist=a,b" in command
