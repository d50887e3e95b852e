"""The door that the rendezvous and the registry have in common."""

import time

import pytest

from acp_mpi.spawn.rendezvous.reception import Reception


def nothing(*_):
    pass


@pytest.mark.parametrize("seconds", [0.0, 1e7, 1e9])
def test_a_deadline_may_be_far_away(seconds):
    """A guest that may wait for ever must not end the process that it waits for."""
    door = Reception("127.0.0.1:0", nothing, nothing, nothing)
    try:
        door.ring()
        door.turn(time.monotonic() + seconds)
    finally:
        door.close()
