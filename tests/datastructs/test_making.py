"""How containers are made: of their contents, placed by keywords, on the living by default."""

import collections
import inspect
import pickle

import numpy as np
import pytest
from support import only, refused, right

import acp_mpi as acp
from acp_mpi.datastructs import container
from acp_mpi.engine import _engine

pytestmark = pytest.mark.mpi

KINDS = (
    acp.Counter, acp.Deque, acp.List, acp.Map, acp.MultiSet, acp.Set, acp.Vector, acp.Workspace,
)  # fmt: skip


@pytest.fixture
def gone():
    """Destroy what a test has made on its rank alone."""
    made = []
    yield lambda one: made.append(one) or one
    for one in made:
        one.destroy()


# Contents first ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_it_holds_is_given_by_position(kind):
    names, by_name = zip(
        *((p.name, p.kind == p.KEYWORD_ONLY) for p in inspect.signature(kind).parameters.values()),
        strict=True,
    )
    contents = {acp.Counter: ["start"], acp.Workspace: ["size"], acp.Vector: ["dtype", "contents"]}
    contents[acp.Deque] = contents[acp.Vector]
    first = contents.get(kind, ["contents"])
    assert list(names[: len(first)]) == first
    assert by_name == (False,) * len(first) + (True,) * (len(names) - len(first))


def test_maps_begin_with_a_mapping_or_with_pairs(gone):
    for contents in ({"a": 1, "b": 2}, [("a", 1), ("b", 2)], zip("ab", (1, 2), strict=True)):
        assert dict(gone(acp.Map(contents)).items()) == {"a": 1, "b": 2}
    one = gone(acp.Map({1: 2.5}, key="q", value="d", ranks=[right()]))
    assert dict(gone(acp.Map(one)).items()) == {1: 2.5}
    assert one.ranks == (right(),)


def test_sets_begin_with_keys(gone):
    assert set(gone(acp.Set([0, 1]))) == {0, 1}
    assert set(gone(acp.Set(np.arange(100), key="q"))) == set(range(100))
    assert set(gone(acp.Set("abc", slots=10))) == {*"abc"}


def test_multisets_begin_with_keys_or_with_counts(gone):
    assert dict(gone(acp.MultiSet([1, 2, 1])).items()) == {1: 2, 2: 1}
    assert dict(gone(acp.MultiSet(collections.Counter("abca"))).items()) == {"a": 2, "b": 1, "c": 1}


@pytest.mark.parametrize("kind", [acp.Vector, acp.Deque])
def test_rows_begin_with_elements_or_with_zeros(gone, kind):
    for contents in ([1, 2, 3], np.array([1, 2, 3]), (i for i in (1, 2, 3)), {1: 0, 2: 0, 3: 0}):
        assert gone(kind("q", contents, rank=right())).tolist() == [1, 2, 3]
    assert gone(kind("q", gone(kind("q", [4, 5])))).tolist() == [4, 5]
    assert gone(kind("V2", b"abcd")).tolist() == [b"ab", b"cd"]
    assert gone(kind("q", size=3)).tolist() == [0, 0, 0]
    assert gone(kind("q", size=0)).tolist() == gone(kind("q", [])).tolist() == []


def test_lists_begin_with_elements(gone):
    one = gone(acp.List(["a", None, (1, 2)], rank=right()))
    assert list(one) == ["a", None, (1, 2)]
    assert acp.query_rank(one.ga) == right()
    assert list(gone(acp.List(np.arange(4), dtype="q"))) == [0, 1, 2, 3]
    assert list(gone(acp.List(one))) == list(one)


def test_counters_begin_with_a_number_and_go_back_to_it(gone):
    one = gone(acp.Counter(5, rank=right()))
    assert (one.next(), one.next(-3), one.read()) == (5, 6, 3)
    for again in (one, pickle.loads(pickle.dumps(one)), acp.Counter.attach(one.ga)):
        again.next()
        assert again.reset() > 3
        assert one.read() == 5
    assert one.reset(8) == 5
    assert list(one.take(10)) == [8, 9]
    lowest = gone(acp.Counter(-(2**63)))
    assert lowest.next(-1) == -(2**63)
    assert lowest.reset() == 2**63 - 1
    assert lowest.read() == -(2**63)


def test_what_can_not_be_the_contents_is_refused_and_leaves_nothing():
    if not only(0):
        return
    for make in (  # heads stay for the next ones of their kind
        lambda: acp.Map([0, 1]), lambda: acp.Map(2), lambda: acp.Set(0), lambda: acp.MultiSet(0),
        lambda: acp.MultiSet({"a": None}), lambda: acp.Set([[]]),
        lambda: acp.Map({"a": "b"}, value="q"), lambda: acp.List(5),
        lambda: acp.List(["a"], dtype="q"), lambda: acp.Counter("a"),
        lambda: acp.Counter(1.5), lambda: acp.Counter(None), lambda: acp.Vector("q", 10),
        lambda: acp.Vector("q", np.int64(10)), lambda: acp.Vector("q", ["a"]),
        lambda: acp.Vector("q", [1], size=2), lambda: acp.Workspace("a"),
    ):  # fmt: skip
        blocks = set()
        for _ in range(2):
            with pytest.raises(TypeError, match=r"; | is not$"):
                make()
            blocks.add(sum(acp.heap_statistics(r).blocks for r in range(acp.procs())))
        assert len(blocks) == 1
    with refused(TypeError, "Vector", "size=10"):
        acp.Vector("q", 10)
    for start in (2**63, -(2**63) - 1):
        with refused(OverflowError, "Counter", start):
            acp.Counter(start)
    for kind, first in ((acp.Set, [0]), (acp.Counter, 0), (acp.Workspace, 8), (acp.List, [])):
        with pytest.raises(TypeError, match="positional"):
            kind(first, 0)


# The living by default ----------------------------------------------------------------------------


def ranks_of(one):
    return one.statistics().ranks


SPREAD = [acp.Map, acp.Set, acp.MultiSet, lambda: acp.Workspace(64 * 12)]


@pytest.mark.parametrize("kind", SPREAD, ids=["map", "set", "multiset", "workspace"])
def test_by_default_it_is_on_the_ranks_that_live(gone, kind, monkeypatch):
    everybody = tuple(range(acp.procs()))
    assert ranks_of(gone(kind())) == everybody
    if acp.procs() > 1:
        monkeypatch.setattr(_engine, "lost_ranks", lambda: [1])
        assert ranks_of(gone(kind())) == (0, *everybody[2:])


@pytest.mark.parametrize("kind", SPREAD, ids=["map", "set", "multiset", "workspace"])
def test_of_too_many_ranks_it_is_on_some_evenly_strided(gone, kind, monkeypatch, caplog):
    caplog.set_level("INFO", "acp_mpi.datastructs")
    monkeypatch.setattr(container, "MOST_RANKS", 2)
    strided = {1: (0,), 2: (0, 1), 3: (0, 1), 4: (0, 2)}
    one = gone(kind())
    assert ranks_of(one) == strided[acp.procs()]
    said = f"{type(one).__name__} is on 2 of {acp.procs()} ranks that live"
    assert caplog.messages == [said] * (acp.procs() > 2)


def test_a_workspace_begins_at_its_rank_whichever_that_is(gone, monkeypatch):
    monkeypatch.setattr(container, "MOST_RANKS", 2)
    for start in range(acp.procs()):
        one = gone(acp.Workspace(640, start_rank=start))
        assert ranks_of(one)[0] == start
        one.write(bytes(range(64)) * 10, 0)
        assert one.read(bytearray(640), 0) == bytes(range(64)) * 10
    if acp.procs() > 1:
        monkeypatch.setattr(_engine, "lost_ranks", lambda: [right()])
        first = (right() + 1) % acp.procs()
        assert ranks_of(gone(acp.Workspace(640, start_rank=right())))[0] == first


def test_a_rank_that_dies_while_it_is_made_is_left_out(gone, monkeypatch):
    """The first look does not know of the death yet, to which its part leads."""
    lost = []
    create = _engine.container_create

    def create_or_find_lost(function, rank, *rest):
        if rank == acp.procs() - 1 and acp.rank() != rank:
            lost[:] = [rank]
            raise acp.PeerLostError(f"{function}: rank {rank} has died; go on without it")
        return create(function, rank, *rest)

    monkeypatch.setattr(_engine, "container_create", create_or_find_lost)
    monkeypatch.setattr(_engine, "lost_ranks", lambda: list(lost))
    living = tuple(r for r in range(acp.procs()) if r != acp.procs() - 1 or r == acp.rank())
    assert ranks_of(gone(acp.Map({"a": 1}))) == living
    assert ranks_of(gone(acp.Workspace(64 * 12))) == living
    lost.clear()
    if len(living) < acp.procs():
        with pytest.raises(acp.PeerLostError):
            acp.Map(ranks=range(acp.procs()))
