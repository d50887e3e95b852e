"""Links: a rank has some to the sources of what it waits for, and rests those that are too many."""

import json
import math
import os
import resource
import signal
import statistics
import threading
from pathlib import Path

import launch
import pytest

import acp_mpi as acp
from acp_mpi.engine import _engine

RANKS = 80  # each a node of its own
LATE = RANKS - 1  # comes last to each call: all others have waited for 20 ms by then, and watch
LATE_S = 1.0

# For each call the far ranks that it needs: partner and source of each round, or those of a tree.
ROUNDS = math.ceil(math.log2(RANKS))
CALLS = {
    "sync": (lambda: acp.sync(), 2 * ROUNDS),
    "allreduce": (lambda: acp.allreduce(1), 2 * ROUNDS),
    "bcast": (lambda: acp.bcast(bytearray(8), LATE), ROUNDS + 1),
    "barrier over a list": (lambda: acp.barrier(acp.ranks()), 2 * ROUNDS),
    "recv from any rank": (lambda: acp.recv(tag=1) if acp.rank() == 0 else None, 3 + 1),
}


def count_links():
    """Rank 0 prints the links and the descriptors of all ranks after each call."""
    with acp.init():
        found = {}
        for name, (call, _) in CALLS.items():
            if acp.rank() == LATE:
                threading.Event().wait(LATE_S)
                if name == "recv from any rank":
                    acp.send("late", 0, tag=1)
            call()
            found[name] = (_engine.links()[0], len(os.listdir("/proc/self/fd")))
        acp.sync()  # what comes now opens links to rank 0
        gathered = acp.gather(json.dumps(found))
        if acp.rank() == 0:
            print(json.dumps([json.loads(one) for one in gathered]))


FILES = 40


def meet_all():
    """Every rank talks to each other one, with fewer descriptors, or links, than ranks."""
    if "ACP_LINKS_OPEN" not in os.environ:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    with acp.init():
        ranks = acp.procs()
        assert acp.allgather(acp.rank() ** 2) == [rank**2 for rank in range(ranks)]
        sent = [(acp.rank(), rank) for rank in range(ranks)]
        assert acp.alltoall(sent) == [(rank, acp.rank()) for rank in range(ranks)]
        for rank in range(ranks):
            acp.fetch_add8(acp.query_starter_ga(rank), 1)
        acp.sync()
        assert acp.fetch_add8(acp.query_starter_ga(acp.rank()), 0) == ranks
        assert acp.losses() == 0
        acp.sync()


@pytest.mark.smoke("few links")
@pytest.mark.parametrize(
    ("ranks", "env"),
    [
        pytest.param(6, {"ACP_LINKS_OPEN": "2"}, id="few links"),
        pytest.param(6, {"ACP_LINKS_OPEN": "1", "ACP_LINKS": "mac"}, id="one link"),
        pytest.param(64, {}, id="few descriptors"),
    ],
)
def test_ranks_meet_more_others_than_they_may_have_links(without_mpi, ranks, env):
    jobs = without_mpi(ranks, launch.program(meet_all), launch.ROADS["nodes"] | env)
    failed = [job.output for job in jobs if job.wait()]
    assert not failed, "\n".join(failed)


def outlive_a_rank_at_rest(folder):
    """The last rank dies while nobody has a connection to it."""
    acp.init()
    end, last = Path(folder, "end"), acp.procs() - 1
    if acp.rank() == last:
        launch.until(end.exists)
        os.kill(os.getpid(), signal.SIGKILL)
    word = acp.query_starter_ga(acp.rank())
    for rank in (last, 1 - acp.rank()):
        acp.fetch_add8(acp.query_starter_ga(rank) + 8, 1)
    launch.until(lambda: _engine.links()[0] <= 1)
    Path(folder, f"{acp.rank()} is ready").touch()
    if acp.rank() == 0:
        launch.until(Path(folder, "1 is ready").exists)
        end.touch()
    try:
        acp.wait_until(word, "==", 1)
    except acp.PeerLostError as error:
        assert error.rank == last, error  # noqa: PT017
        Path(folder, f"{acp.rank()} survived").touch()


def test_the_death_of_a_rank_at_rest_ends_a_wait(without_mpi, tmp_path):
    env = launch.ROADS["nodes"] | {"ACP_LINKS_OPEN": "1", "ACP_PEER_TIMEOUT": "8"}
    jobs = without_mpi(3, launch.program(outlive_a_rank_at_rest, tmp_path), env)
    statuses = [job.wait() for job in jobs]
    assert statuses == [0, 0, -signal.SIGKILL], "\n".join(job.output for job in jobs)
    assert {path.name for path in tmp_path.glob("* survived")} == {"0 survived", "1 survived"}


@pytest.mark.campaign
def test_waits_open_few_links(without_mpi):
    jobs = without_mpi(RANKS, launch.program(count_links), launch.ROADS["nodes"])
    failed = [job.output for job in jobs if job.wait()]
    assert not failed, "\n".join(failed)
    found = json.loads(jobs[0].output.splitlines()[-1])
    most = 0
    print(f"\n{RANKS} ranks, each on a node of its own; after each call: links, descriptors")
    for name, (_, needed) in CALLS.items():
        links, descriptors = zip(*(one[name] for one in found), strict=True)
        most += needed
        print(
            f"{name:20} links: median {statistics.median(links):g}, most {max(links)};"
            f" descriptors: median {statistics.median(descriptors):g}, most {max(descriptors)}"
        )
        assert max(links) <= 2 * most, (name, links)  # both may open one at a time
