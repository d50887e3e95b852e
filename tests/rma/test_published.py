"""Names: one publisher each, and nothing of those that are over."""

import launch
import pytest
from support import alone, only, refused, right

import acp_mpi as acp
from acp_mpi.engine import _engine

pytestmark = pytest.mark.mpi

MANY = 100


def memory():
    """Return bytes in use and regions of this rank."""
    _, _, used, _, segments, _ = _engine.memory_statistics()
    return used, segments


def is_published(name):
    try:
        acp.lookup(name, timeout=0.05)
    except TimeoutError:
        return False
    return True


def test_a_name_belongs_to_the_rank_that_has_published_it():
    if alone():
        acp.publish("mine", "first")
    acp.sync()
    if alone():
        acp.publish("mine", "second")
    else:
        with refused(ValueError, "publish", "rank 0 has published 'mine'", "replace=True"):
            acp.publish("mine", acp.rank())
        with refused(ValueError, "withdraw", "rank 0 has published 'mine'"):
            acp.withdraw("mine")
    acp.sync()
    assert acp.lookup("mine") == "second"
    if only(0):
        acp.withdraw("mine")


def test_another_rank_replaces_it_if_it_says_so():
    if acp.procs() == 1:
        return
    if alone():
        acp.publish("taken", "first")
    if only(1):
        acp.publish("taken", "second", replace=True)
    acp.sync()
    assert acp.lookup("taken") == "second"
    if alone():
        with refused(ValueError, "publish", "rank 1 has published 'taken'"):
            acp.publish("taken", "third")
    if only(1):
        acp.withdraw("taken")


def test_a_name_that_is_withdrawn_is_free():
    if alone():
        acp.publish("free", 1)
        acp.withdraw("free")
        assert not is_published("free")
        with pytest.raises(KeyError, match="withdraw: nobody has published 'free'"):
            acp.withdraw("free")
    if only(1):
        acp.publish("free", 2)
    assert acp.lookup("free") == 2
    if only(1):
        acp.withdraw("free")


def test_names_that_are_withdrawn_or_replaced_by_their_rank_cost_nothing():
    before = memory()
    for number in range(MANY):
        name = f"{acp.rank()} once {number}"
        acp.publish(name, number)
        acp.publish(name, [number] * 10)
        acp.withdraw(name)
        launch.until(lambda: memory() <= before)
    acp.sync()


def test_names_that_another_rank_has_replaced_cost_nothing():
    before = memory()
    for number in range(MANY):
        acp.publish(f"{acp.rank()} for a while {number}", number)
    acp.sync()
    for number in range(MANY):
        name = f"{right()} for a while {number}"
        acp.publish(name, "replaced", replace=True)
        acp.withdraw(name)
    launch.until(lambda: memory() <= before)  # the keeper tells the publisher


def test_a_name_is_any_str():
    class Name(str):
        __slots__ = ()

        def __str__(self):
            return "another"

    if alone():
        acp.publish(Name("of a class"), "found")
        assert acp.lookup("of a class") == "found"
        acp.withdraw(Name("of a class"))
        assert not is_published("of a class")
