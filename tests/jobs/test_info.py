"""`python -m acp_mpi info`: all that a bug report needs, and no secret, wherever it goes."""

import os
import subprocess
import sys

import launch
import pytest

import acp_mpi as acp
from acp_mpi.__main__ import main
from acp_mpi.job.rendezvous.server import Server

MODULE = [sys.executable, "-P", "-m", "acp_mpi"]


def show():
    main(["info"])


@pytest.mark.smoke("any")
@pytest.mark.parametrize("road", launch.ROADS)
def test_info_tells_what_a_bug_report_needs(passes, road):
    output = passes([*launch.mpiexec(2), *launch.program(show)], launch.ROADS[road])
    for word in (
        acp.__version__,
        "sources",
        "Python",
        "mpi4py",
        "NumPy",
        "thread level",
        "memory",
        "environment",
        "nodes",
        "roads",
    ):
        assert word in output
    pairs = {(a, b) for a in "01" for b in "01"}
    lines = [line.split() for line in output.partition("roads:")[2].splitlines()]
    rows = {(row[0], row[1]): row for row in lines if tuple(row[:2]) in pairs}
    assert set(rows) == pairs
    expected = {"owner": "owner", "link": "link", "window": "window", "nodes": "link"}.get(road, "")
    assert expected in " ".join(rows["0", "1"])
    assert all(float(row[-2]) >= 0 and row[-1] == "us" for row in rows.values())


def test_info_works_without_a_launcher_and_without_mpi(passes):
    assert acp.__version__ in passes([*MODULE, "info"], {"ACP_MPI": "0"})


def test_info_needs_no_starter_memory(passes):
    passes([*launch.mpiexec(2), *launch.program(show)], {"ACP_STARTER_SIZE": "0"})


def test_info_does_not_show_the_secret(passes):
    digits = "c0ffee" * 10 + "beef"
    with Server(bytes.fromhex(digits), 1) as server:
        place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET": digits}
        output = passes([*MODULE, "info"], {"ACP_MPI": "0"} | place)
    assert digits not in output
    assert "not shown" in output


def test_info_that_cannot_be_written_is_no_traceback():
    env = os.environ | {"ACP_MPI": "0"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*MODULE, "info"], env=env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=600
        )
    assert done.returncode == 1
    assert done.stderr == "info: it cannot be shown: No space left on device\n"


def test_info_that_nobody_reads_any_more_ends_in_silence():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        env = os.environ | {"ACP_MPI": "0"}
        done = subprocess.run(
            [*MODULE, "info"], env=env, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=600
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_info_with_a_closed_output_ends_in_silence():
    env = os.environ | {"ACP_MPI": "0"}
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *MODULE, "info"]
    done = subprocess.run(closed, env=env, stderr=subprocess.PIPE, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
