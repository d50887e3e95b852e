"""What tests of channels and segmented buffers share: ends of rank 0 and of the last rank."""

import itertools
import os

import numpy as np

import acp_mpi as acp

MEMORY = {"private": np.zeros, "global": acp.zeros}


def is_source(end):
    return end is not None and end.sends


def is_destination(end):
    return end is not None and not end.sends


def meet():
    """Of the two ranks that have ends."""
    acp.barrier([0, acp.procs() - 1])


def until(condition):
    """What the other has done is seen by link a little later."""
    while not condition():
        os.sched_yield()


def fill_for_ever(end):
    for i in itertools.count():
        with end.fill() as segment:
            segment[:] = (
                bytes([i % 256]) * len(segment) if isinstance(segment, memoryview) else i % 256
            )
