"""A process without MPI and groups of either MPI in one job, over all roads."""

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
    following = (rank + 1) % procs
    with pytest.raises(ValueError, match=f"rank {following} has published 'from {following}'"):
        acp.publish(f"from {following}", rank)
    acp.sync()
    acp.withdraw(f"from {rank}")
    with pytest.raises(KeyError):
        acp.withdraw(f"from {rank}")
    acp.sync()
    assert "numpy" not in sys.modules
    acp.finalize()


def meet_by_different_roads():
    """Each rank has been told another one."""
    roads = ("", "owner", "link", "window", "link")
    os.environ["ACP_PATH"] = roads[int(os.environ["ACP_GROUP_RANK"])]
    meet("alone")


def test_ranks_that_were_told_different_roads_are_one_job(groups, meeting, all_pass):
    all_pass(groups({"alone": ("acp", 5)}, meet_by_different_roads, env=meeting({"alone": 5})))


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("mixture", launch.MIXTURES)
def test_groups_are_one_job(groups, meeting, all_pass, mixture, road):
    sizes = launch.MIXTURES[mixture]
    place = meeting({name: ranks for name, (_, ranks) in sizes.items()})
    all_pass(groups(sizes, meet, ",".join(sizes), env=place | launch.ROADS[road]))
