"""A process without MPI and groups of either MPI in one job, over three roads."""

import os
import sys

import launch
import pytest

import acp_mpi as acp

WORD = 8


def meet(groups):
    """Copy 8 bytes and add to words between all ranks of all groups, with bytearrays only."""
    acp.init()
    rank, procs = acp.rank(), acp.procs()
    assert [group.name for group in acp.groups()] == groups.split(",")
    assert sum(group.size for group in acp.groups()) == procs
    assert rank in acp.group().ranks
    assert acp.group().has_mpi == ("mpi4py" in sys.modules)
    for other in range(procs):
        acp.put(acp.query_starter_ga(other) + WORD * rank, (1000 + rank).to_bytes(WORD, "little"))
    acp.sync()
    mine = acp.get(acp.query_starter_ga(rank), bytearray(WORD * procs))
    assert [int.from_bytes(mine[WORD * r :][:WORD], "little") for r in range(procs)] == [
        1000 + r for r in range(procs)
    ]
    table = acp.query_starter_ga(rank) + 1024
    for src in range(procs):  # third-party copies into every rank
        for dst in range(procs):
            acp.copy(acp.query_starter_ga(dst) + 1024 + WORD * (rank * procs + src),
                     acp.query_starter_ga(src) + WORD * src, WORD)  # fmt: skip
            acp.add8(acp.GA_NULL, acp.query_starter_ga(dst) + 8192, 1)
    acp.sync()
    copied = acp.get(table, bytearray(WORD * procs * procs))
    assert copied == mine * procs
    assert acp.fetch_add8(acp.query_starter_ga(rank) + 8192, 0) == procs * procs
    assert acp.allgather((rank, acp.group().name))[rank] == (rank, acp.group().name)
    acp.publish(f"from {rank}", rank)
    assert [acp.lookup(f"from {r}") for r in range(procs)] == list(range(procs))
    acp.sync()
    assert "numpy" not in sys.modules
    acp.finalize()
    print("all is well", flush=True)


def start_groups(start, meeting, sizes, road):
    """Start `sizes`: name -> (Python with its MPI, or None for no MPI; ranks)."""
    place = meeting({name: ranks for name, (_, ranks) in sizes.items()}) | launch.ROADS[road]
    names, jobs = ",".join(sizes), []
    for name, (python, ranks) in sizes.items():
        if python is None:
            jobs.append(
                start(launch.program(meet, names), place | {"ACP_GROUP": name, "ACP_MPI": "0"})
            )
        else:
            command = launch.program(meet, names, python=python)
            jobs.append(
                start(
                    [*launch.mpiexec(ranks, python=python), *command], place | {"ACP_GROUP": name}
                )
            )
    return jobs


def all_pass(jobs):
    for job in jobs:
        assert job.wait() == 0, "\n".join(job.output for job in jobs)
        assert "all is well" in job.output


@pytest.mark.parametrize("road", launch.ROADS)
def test_a_process_without_mpi_and_an_mpi_group_are_one_job(start, meeting, road):
    all_pass(start_groups(start, meeting, {"solo": (None, 1), "ocean": (sys.executable, 2)}, road))


@pytest.mark.parametrize("road", launch.ROADS)
def test_both_mpis_and_a_process_without_one_are_one_job(start, meeting, road):
    other = os.environ.get("OTHER_PYTHON")
    if not other:
        pytest.skip("no environment with the other MPI beside this one (ACP_TEST_OTHER_PYTHON)")
    assert launch.mpi_name(other) != launch.mpi_name()
    all_pass(
        start_groups(
            start,
            meeting,
            {"atmosphere": (other, 2), "solo": (None, 1), "ocean": (sys.executable, 2)},
            road,
        )
    )


@pytest.mark.parametrize("road", launch.ROADS)
def test_processes_without_mpi_are_one_group(without_mpi, road):
    all_pass(without_mpi(3, launch.program(meet, "alone"), launch.ROADS[road]))
