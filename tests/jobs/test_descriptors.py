"""Descriptors: a few for each peer, all closed by finalize; a child has its memory's alone."""

import os

import launch
import numpy as np
import pytest

import acp_mpi as acp

OWN, EACH = 13, 3  # a peer: its memory, its doorbell, its process; or a link


def descriptors():
    """Return what this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except OSError:  # the one that lists
            continue
    return found


def talk_to_everybody():
    before = descriptors()
    with acp.init():
        plain = np.zeros(8, np.int64)
        with acp.register_memory(plain) as key:
            for ga in acp.allgather(acp.query_ga(key)):
                acp.fetch_add8(ga, 1)
            acp.sync()
            assert plain[0] == acp.procs()
            assert len(descriptors() - before) <= OWN + EACH * (acp.procs() - 1)
            acp.sync()
            child = os.fork()
            if child == 0:
                os._exit(any("memfd:" not in name for _, name in descriptors() - before))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            acp.sync()
    assert descriptors() == before


@pytest.mark.parametrize("road", ["any", "owner", "link"])
def test_descriptors_are_few_and_all_closed(without_mpi, road):
    for job in without_mpi(4, launch.program(talk_to_everybody), launch.ROADS[road]):
        assert job.wait() == 0, job.output
