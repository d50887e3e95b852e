"""Loops over 8-byte operations, one call at a time."""

from itertools import repeat

import numpy as np
from harness import Body

import acp_mpi as acp


def copy8(dst: int, src: int) -> Body:
    """Return a loop of 8-byte copies, each completed before the next."""
    copy, complete = acp.copy, acp.complete

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            complete(copy(dst, src, 8))

    return loop


def put(ga: int, buffer: np.ndarray) -> Body:
    """Return a loop of puts of a buffer."""
    call = acp.put

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            call(ga, buffer)

    return loop


def get(ga: int, buffer: np.ndarray) -> Body:
    """Return a loop of gets into a buffer."""
    call = acp.get

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            call(ga, buffer)

    return loop


def fetch_add8(ga: int) -> Body:
    """Return a loop of atomic additions."""
    call = acp.fetch_add8

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            call(ga, 1)

    return loop


def fetch_cas8(ga: int) -> Body:
    """Return a loop of compare-and-swap."""
    call = acp.fetch_cas8

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            call(ga, 1, 1)

    return loop


def chain(ga: int, length: int) -> Body:
    """Return a loop of chains of atomic additions, each of which follows the one before."""
    add8, complete, null, cont = acp.add8, acp.complete, acp.GA_NULL, acp.HANDLE_CONT

    def loop(count: int) -> None:
        for _ in repeat(None, count):
            for _ in repeat(None, length):
                add8(null, ga, 1, order=cont)
            complete()

    return loop
