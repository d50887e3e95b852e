"""Groups that are started by hand with a table of ports are one job (paper 001, figure 5)."""

import importlib
import os
import random

import launch
import pytest

import acp_mpi as acp
from acp_mpi.job.rendezvous import secret


@pytest.fixture
def table(tmp_path):
    """table(ranks) writes the table of a job on this host, with its secret; returns its path."""

    def write(ranks):
        ports = launch.free_ports(ranks)
        rows = zip(range(ranks), ports, [*ports[1:], ports[0]], strict=True)
        path = tmp_path / "Portfile"
        path.write_text("".join(f"{r} {ranks} {own} {next_} here here\n" for r, own, next_ in rows))
        secret.create(f"{path}.secret")
        return path

    return write


def meet():
    with acp.init():
        rank, procs = acp.rank(), acp.procs()
        names = [group.name for group in acp.groups()]
        assert names == [str(group.ranks[0]) for group in acp.groups()]
        assert rank in acp.group().ranks
        for other in acp.ranks():
            acp.fetch_add8(acp.query_starter_ga(other), 1)
        acp.sync()
        assert acp.fetch_add8(acp.query_starter_ga(rank), 0) == procs
        print(" ".join(names), flush=True)


def say_no():
    if "ACP_MPI" not in os.environ:
        importlib.import_module("mpi4py.MPI")  # it takes its time on a busy machine
    print("comes", flush=True)
    try:
        acp.init()
    except (acp.Error, OSError) as error:
        print(type(error).__name__, error, flush=True)


@pytest.fixture
def by_hand(start):
    """by_hand(table, offset, ranks, function) starts a group; 0 ranks: a process without MPI."""

    def run(path, offset, ranks, function=meet, env=None):
        option = ["--acp-multirun", str(path), str(offset)]
        command = launch.program(function)
        # the function takes no arguments: what it finds in sys.argv is init's
        command = [command[0], "-c", STARTER, *command[1:], *option]
        if not ranks:
            return start(command, {"ACP_MPI": "0"} | (env or {}))
        return start([*launch.mpiexec(ranks), *command], env)

    return run


STARTER = """
import runpy, sys
program, file, function = sys.argv[1:4]
sys.argv[1:4] = []
sys.path[0] = program.rpartition("/jobs/")[0]
runpy.run_path(file, run_name="program")[function]()
"""

FIGURE_5 = {0: 0, 1: 3, 4: 2, 6: 1}  # offset -> ranks, 0: one process without MPI


@pytest.mark.parametrize("seed", range(2))
def test_the_job_of_figure_5_meets_in_any_order(table, by_hand, seed):
    path = table(7)
    offsets = random.Random(seed).sample(list(FIGURE_5), len(FIGURE_5))
    jobs = [by_hand(path, offset, FIGURE_5[offset]) for offset in offsets]
    for job in jobs:
        assert job.wait() == 0, "\n".join(job.output for job in jobs)
        assert "0 1 4 6" in job.output


@pytest.mark.smoke
def test_a_group_with_mpi_may_come_first_and_others_without(table, by_hand):
    path = table(4)
    jobs = [by_hand(path, 3, 0), by_hand(path, 2, 0), by_hand(path, 0, 2)]
    for job in jobs:
        assert job.wait() == 0, "\n".join(job.output for job in jobs)
        assert "0 2 3" in job.output


def test_the_options_leave_the_command_line_and_may_be_variables(table, by_hand, start):
    path = table(2)
    jobs = [
        by_hand(path, 0, 0),
        start(launch.program(meet), {"ACP_MPI": "0", "ACP_MULTIRUN": f"{path} 1"}),
    ]
    for job in jobs:
        assert job.wait() == 0, "\n".join(job.output for job in jobs)


def test_groups_that_overlap_are_told(table, by_hand):
    path = table(4)
    others = [by_hand(path, offset, 2, say_no) for offset in (1, 2)]
    for job in others:
        launch.until(lambda job=job: job.output.count("comes") == 2, job)
    first = by_hand(path, 0, 0, say_no, {"ACP_JOIN_TIMEOUT": "8"})
    first.wait()
    assert "missing: the processes of rows" in first.output
    for job in others:
        job.wait()
    said = others[0].output + others[1].output
    assert "they overlap; an offset is the sum of the processes before it" in said


def test_rows_that_nobody_claims_are_named(table, by_hand):
    path = table(4)
    job = by_hand(path, 0, 2, say_no, {"ACP_JOIN_TIMEOUT": "2"})
    job.wait()
    assert "TimeoutError" in job.output
    assert "group '0' of 2 (complete) from" in job.output
    assert "missing: the processes of rows 2-3" in job.output


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.unlink(), "Portfile' cannot be read: No such file"),
        (lambda path: path.with_name("Portfile.secret").unlink(), "cannot be read: No such file"),
        (lambda path: path.with_name("Portfile.secret").chmod(0o644), "mode 0644"),
        (lambda path: path.write_text("0 2 1 1 a a\n"), "there are 2 ranks, and there are 1 rows"),
    ],
)
@pytest.mark.parametrize("ranks", [0, 2])
def test_what_is_wrong_is_told_at_once(table, by_hand, spoil, words, ranks):
    path = table(3)
    spoil(path)
    job = by_hand(path, 1, ranks, say_no)
    job.wait()
    assert job.output.count(words) == max(ranks, 1), job.output


def test_a_first_host_that_only_this_one_reaches_is_named(table, by_hand):
    path = table(2)
    rows = path.read_text().splitlines()
    path.write_text(f"{rows[0].replace('here here', '2130706433 far')}\n"
                    f"{rows[1].replace('here here', 'far 2130706433')}\n")  # fmt: skip
    job = by_hand(path, 0, 0, say_no)
    job.wait()
    assert "for 2130706433:" in job.output
    assert "where no other host comes" in job.output


@pytest.mark.parametrize("other", ["ACP_GROUP_SIZE=2", "ACP_RENDEZVOUS=a:1", "ACP_GROUP=ice"])
def test_the_table_excludes_other_ways_to_meet(table, by_hand, other):
    job = by_hand(table(2), 1, 0, say_no, dict([other.split("=")]))
    job.wait()
    assert "unset ACP_RENDEZVOUS, ACP_GROUP and ACP_GROUP_SIZE" in job.output
