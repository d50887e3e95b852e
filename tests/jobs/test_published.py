"""Names that have another keeper after a loss: what was published last stands."""

import itertools
import os
import signal
import time
from pathlib import Path

import launch
import pytest

import acp_mpi as acp
from acp_mpi.rma import exchange

RANKS, VICTIM = 4, 2


def name_kept_by(rank):
    names = (f"name {number}" for number in itertools.count())
    return next(name for name in names if exchange._key(name, "")[0] % RANKS == rank)


def give_names_again(folder, order):
    """Publish a name in turn, lose its keeper, and give it again in that order."""
    acp.init()
    name, order = name_kept_by(VICTIM), [int(rank) for rank in order]

    def after(ranks, what):
        launch.until(lambda: all(Path(folder, f"{rank} {what}").exists() for rank in ranks))

    for rank in (0, 1, 3):
        if acp.rank() == rank:
            acp.publish(name, f"of {rank}", replace=True)
        acp.sync()
    if acp.rank() == VICTIM:
        after(order, "is through")  # whoever is still in the sync would hear of the death there
        os.kill(os.getpid(), signal.SIGKILL)
    Path(folder, f"{acp.rank()} is through").touch()
    while VICTIM in acp.ranks():
        time.sleep(0.01)
    after(order[: order.index(acp.rank())], "has")
    acp.refresh()
    Path(folder, f"{acp.rank()} has").touch()
    acp.sync()
    assert acp.lookup(name) == "of 3"
    acp.sync()
    if acp.rank() == 0:
        acp.publish(name, "later", replace=True)
    acp.sync()
    assert acp.lookup(name) == "later"
    acp.finalize()


@pytest.mark.parametrize("order", ["013", "310", "103"])
@pytest.mark.parametrize("road", ["any", "link"])
def test_what_was_published_last_stands(without_mpi, tmp_path, order, road):
    command = launch.program(give_names_again, tmp_path, order)
    jobs = without_mpi(RANKS, command, launch.ROADS[road])
    for rank, job in enumerate(jobs):
        assert (job.wait() == 0) == (rank != VICTIM), job.output
