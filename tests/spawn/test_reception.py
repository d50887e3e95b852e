"""The door that the rendezvous and the registry have in common."""

import time
import weakref

import pytest
from arriving import call

from acp_mpi.job.rendezvous.reception import Reception


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


def test_nothing_is_kept_of_who_has_gone():
    """Not even while its deadline is far away."""
    met = []

    def talk(visitor):
        met.append(weakref.ref(visitor))
        door.admit(visitor)
        door.give_until(visitor, time.monotonic() + 1e9)
        yield b"", 1

    door = Reception("127.0.0.1:0", talk, nothing, nothing)
    try:
        for number in range(300):
            with call(door):
                while len(met) == number:
                    door.turn(None)
            while door.guests:
                door.turn(None)
    finally:
        door.close()
    assert sum(visitor() is not None for visitor in met) < 100
