"""`python -m acp_mpi selftest` says what works with an MPI, and what to do about what does not."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import acp_mpi as acp

STEPS = 11
# The launcher of another MPI: each process takes itself for a job of one.
ALONE = """#!/bin/sh
shift; n=$1; shift
for i in $(seq "$n"); do "$@" & done
wait
"""


def selftest(*words, python=sys.executable, **settings):
    return subprocess.run(
        [python, "-P", "-m", "acp_mpi", "selftest", *words],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=600,
    )


def results(done):
    return [line.split()[0] for line in done.stdout.splitlines() if line[:5] in ("works", "FAILS")]


@pytest.mark.smoke
def test_all_works_here():
    done = selftest()
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(done) == ["works"] * STEPS
    assert "all works" in done.stdout


def test_the_launcher_of_another_mpi_is_named(tmp_path):
    launcher = tmp_path / "alone"
    launcher.write_text(ALONE)
    launcher.chmod(0o755)
    done = selftest("--launcher", str(launcher))
    assert done.returncode == 1
    assert "this one is in a job of 1" in done.stdout
    assert "next: use the mpiexec of the MPI that mpi4py loads" in done.stdout
    assert "works  Comm.Spawn" in done.stdout  # by one process


def test_without_a_launcher_the_rest_is_tried(tmp_path):
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    packages = {str(Path(module.__file__).parent.parent) for module in (acp, np)}
    done = selftest(
        python=python,
        PATH=str(tmp_path),
        PYTHONPATH=os.pathsep.join(packages),
        PYTHONHOME=sys.base_prefix,
    )
    assert done.returncode == 1
    assert "FAILS  mpiexec: there is none beside this Python, and none in PATH" in done.stdout
    assert results(done)[1:] == ["works"] * 2, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "1"], "-n 1: at least two ranks"),
        (["--launcher", "nope -x"], "there is no program 'nope'"),
    ],
)
def test_a_wrong_command_line_starts_nothing(words, said):
    done = selftest(*words)
    assert done.returncode == 2
    assert said in done.stderr
