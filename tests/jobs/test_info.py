"""`python -m acp_mpi info`: all that a bug report needs, and no secret, wherever it goes."""

import os
import re
import subprocess
import sys

import launch
import pytest

import acp_mpi as acp
from acp_mpi.__main__ import main
from acp_mpi.job.rendezvous.server import Server
from acp_mpi.tools import pair_times

MODULE = [sys.executable, "-P", "-m", "acp_mpi"]


def show():
    main(["info"])


def measure():
    launch.take_place()
    main(["info", "--measure"])


def times(output):
    """Return the rows of the table of times, cut where two blanks are, and what is below it."""
    head, *rest = output.partition("\ntimes in")[2].splitlines()[1:]
    lines = [line for line in rest if "->" in line or line.startswith("  within")]
    others = [line.strip() for line in rest if line.strip() and line not in lines]
    rows = [re.split("  +", line.strip()) for line in (head, *lines)]
    return rows, others


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
        "shmem_enabled",
        "memory",
        "environment",
        "nodes",
        "roads",
    ):
        assert word in output
    pairs = {(a, b) for a in "01" for b in "01"}
    table = output.partition("roads:")[2].partition("\ndevice memory")[0]
    lines = [line.split() for line in table.splitlines()]
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


@pytest.mark.smoke("any")
@pytest.mark.parametrize("road", launch.ROADS)
def test_measure_shows_machines_and_times_by_the_road_by_link_and_by_mpi(passes, road):
    output = passes([*launch.mpiexec(2), *launch.program(measure)], launch.ROADS[road], 120.0)
    for word in ("machine of", "processor", "NUMA nodes", "shmem_enabled", "limits", "network"):
        assert word in output
    (head, *rows), _ = times(output)
    assert head == ["pair", "by", *pair_times.COLUMNS]
    pairs = {row[0] for row in rows}
    assert all("->" in pair for pair in pairs) == (road == "nodes")
    ways = {row[1] for row in rows}
    first = {"any": "load/store", "nodes": "link"}.get(road, road)
    window = "MPI window" not in output.partition("not measured: ")[2]
    assert ways == {first, "link"} | ({pair_times.BY_MPI} if window else set())
    assert all(len(row) == len(head) and float(time) >= 0 for row in rows for time in row[2:])


def test_measure_says_what_is_not_measured_and_why(passes):
    output = passes([*MODULE, "info", "--measure"], {"ACP_MPI": "0"})
    assert "not measured: times: there is one rank; start two on each node" in output
    small = {"ACP_WINDOW_SIZE": "0", "ACP_HEAP_SIZE": "256K"}
    output = passes([*launch.mpiexec(2), *launch.program(measure)], small, 120.0)
    (_, *rows), others = times(output)
    assert {row[1] for row in rows} == {"load/store", "link"}
    assert all([row[4], row[7]] == ["-", "-"] for row in rows)  # 16 MiB
    assert others == ["not measured: MPI: MPI window none: ACP_WINDOW_SIZE=0"]


def test_measure_measures_no_links_where_a_job_cannot_begin_again(without_mpi):
    jobs = without_mpi(2, [*MODULE, "info", "--measure"])
    assert [job.wait() for job in jobs] == [0, 0]
    (_, *rows), others = times("".join(job.output for job in jobs))
    assert {row[1] for row in rows} == {"load/store"}
    assert [line.split(":")[1] for line in others] == [" MPI", " links"]


def test_pairs_of_many_nodes_are_few_and_reach_all():
    assert pair_times.pairs([[0, 1], [2], [3, 4]]) == [
        *[(0, 1), (3, 4)],
        *[(0, 2), (2, 3), (3, 0)],
        *[(0, 3), (2, 0), (3, 2)],
    ]
    assert pair_times.pairs([[0]]) == []
    pairs = pair_times.pairs([[rank] for rank in range(100)])
    assert len(pairs) == len(set(pairs)) == 600  # 1, 2, 4, 8, 16, 32 nodes further
    assert {caller for caller, _ in pairs} == {target for _, target in pairs} == set(range(100))


def test_pairs_of_nodes_that_are_alike_are_one_line():
    names = {0: "a", 1: "a", 2: "b", 3: "c"}
    usual, slow = [1e-6] * 7, [1e-6] * 6 + [5e-6]
    found = {
        (0, 1): ("link", usual),
        (0, 2): ("link", usual),
        (0, 3): ("link", [1.5e-6] * 7),
        (2, 3): ("link", slow),
        (3, 2): ("window", [1e-6, 1e-6, None, 1e-6, 1e-6, None, 1e-6]),
    }
    rows = [(pair, way, *cells) for pair, way, *cells in pair_times.rows(found, names)]
    assert rows == [
        ("within a", "link", *["1.00"] * 7),
        ("a -> b and 1 more", "link", *["1.25"] * 7),
        ("b -> c", "link", *["1.00"] * 6, "5.00"),
        ("c -> b", "window", "1.00", "1.00", "-", "1.00", "1.00", "-", "1.00"),
    ]
