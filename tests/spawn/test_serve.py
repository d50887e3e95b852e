"""The program that runs a rendezvous."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from arriving import whole

import acp_mpi.errors
from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.connector import join

# ---- The program ---------------------------------------------------------------------------

PACKAGE_PARENT = Path(acp_mpi.errors.__file__).parent.parent


def serve(*arguments, environ=None):
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "acp_mpi.launch.macprun", "serve", *arguments],
        env=dict(os.environ, PYTHONPATH=str(PACKAGE_PARENT), **(environ or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("timeout", ["60", "inf"])
def test_the_program_prints_its_address_and_ends_when_all_have_left(pool, tmp_path, timeout):
    key = secret.create(tmp_path / "secret")
    arguments = ["--groups", "b=1,a=1", "--secret-file", str(tmp_path / "secret")]
    with serve(*arguments, "--timeout", timeout) as program:
        name, _, address = program.stdout.readline().strip().partition("=")
        assert name == "ACP_RENDEZVOUS"
        assert address.startswith("127.0.0.1:")
        other = pool.submit(join, address, key, "b", 1, False, whole("b", 1))
        table = join(address, key, "a", 1, False, whole("a", 1))
        other.result()
        assert [group.name for group in table.groups] == ["b", "a"]
        assert program.wait(20) == 0
        assert program.stdout.read() == ""


def test_a_program_makes_a_secret_and_never_touches_one(tmp_path):
    def make():
        macprun = [sys.executable, "-P", "-m", "acp_mpi.launch.macprun"]
        command = [*macprun, "secret", tmp_path / "secret"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert (make().returncode, make().returncode) == (0, 1)
    assert len(secret.read(tmp_path / "secret")) == 32
    assert "File exists" in make().stderr


def test_the_program_says_who_is_missing_and_fails(tmp_path):
    secret.create(tmp_path / "secret")
    with serve(
        "--groups", "2", "--timeout", "0.1", environ={"ACP_SECRET_FILE": str(tmp_path / "secret")}
    ) as program:
        assert program.wait(20) == 1
        assert "missing: 2 more groups" in program.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--groups", "0"], 2),
        (["--groups", "a=1,a=2"], 2),
        ([], 2),
        (["--groups", "1"], 1),
        (["--groups", "1", "--timeout", "-1"], 2),
        (["--groups", "1", "--secret-file", "/nonexistent"], 1),
    ],
)
def test_usage_errors_are_2_and_others_1(arguments, status):
    with serve(*arguments, environ={"ACP_SECRET_FILE": "", "ACP_SECRET": ""}) as program:
        assert program.wait(20) == status
        assert program.stdout.read() == ""
        assert program.stderr.read()
