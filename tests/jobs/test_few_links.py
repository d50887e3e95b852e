"""Links of waits: a rank is linked to the sources of what it waits for, and to few others."""

import json
import math
import os
import statistics
import threading

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
