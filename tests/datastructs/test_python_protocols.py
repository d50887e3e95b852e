"""Containers as collections.abc has them: for code that knows dicts, sets and sequences."""

import contextlib
import itertools
from collections import ChainMap
from collections.abc import Hashable, MutableMapping, Sequence, Set

import pytest
from support import only

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def test_a_map_has_the_methods_and_views_of_a_mapping():
    if only(-1):
        with acp.Map({"a": 1, "b": 2}) as m:
            assert isinstance(m, MutableMapping)
            assert isinstance(m, Hashable)
            assert m.keys() & {"b", "c"} == {"b"}
            assert ("a", 1) in m.items()
            assert ("a", 2) not in m.items()
            assert 2 in m.values()
            assert 3 not in m.values()
            assert len(m.items()) == len(m.values()) == 2
            assert m.keys() - m.keys() == set()
            assert ChainMap({"c": 3}, m)["b"] == 2
            assert m.to_dict() == dict(m) == dict(m.items()) == {"a": 1, "b": 2}
            assert m != m.to_dict()
            taken = dict([m.popitem(), m.popitem()])
            assert taken == {"a": 1, "b": 2}
            with pytest.raises(KeyError, match="popitem"):
                m.popitem()
            match m:
                case {"a": _}:
                    raise AssertionError("it is empty")
                case {}:
                    pass


def test_each_element_is_popped_by_one_rank():
    m = acp.bcast(acp.Map(dict.fromkeys(range(100), 0)) if acp.rank() == 0 else None, root=0)
    mine = []
    while m:
        with contextlib.suppress(KeyError):  # another rank has taken the last one
            mine.append(m.popitem()[0])
    assert sorted(itertools.chain(*acp.allgather(mine))) == list(range(100))
    if acp.rank() == 0:
        m.destroy()


def test_a_set_takes_part_in_the_operations_of_sets():
    if only(-1):
        with acp.Set([1, 2, 3]) as s, acp.Set([3, 4]) as other:
            assert isinstance(s, Set)
            assert s & {2, 5} == {2, 5} & s == {2}
            assert s | other == {1, 2, 3, 4}
            assert s - other == {1, 2}
            assert {1, 9} - s == {9}
            assert s ^ other == {1, 2, 4}
            assert s <= {1, 2, 3}
            assert s > {1}
            assert not s < {1, 2, 3}
            assert s.isdisjoint([7])
            assert s != s.to_set() == {1, 2, 3}
            assert type(s & other) is set


@pytest.mark.parametrize("kind", [acp.Vector, acp.Deque])
def test_a_vector_and_a_deque_are_sequences(kind):
    if only(-1):
        with kind(int, [5, 6, 5]) as v:
            assert isinstance(v, Sequence)
            assert v.index(5) == 0
            assert v.index(5, 1) == 2
            assert v.count(5) == 2
            assert 6 in v
            assert 7 not in v
            assert list(reversed(v)) == v.to_list()[::-1]
            assert v != v.to_list() == v.tolist() == [5, 6, 5]
            with pytest.raises(ValueError, match="9 is not in list"):
                v.index(9)


def test_a_list_and_a_multiset_are_neither():
    if only(-1):
        with acp.List([3, 4]) as row, acp.MultiSet("aab") as counts:
            assert not isinstance(row, Sequence)
            assert not isinstance(counts, Set)
            assert row.to_list() == [3, 4]
            assert counts.to_dict() == {"a": 2, "b": 1}


def test_types_take_arguments_where_they_are_annotations():
    for annotation in acp.Map[str, int], acp.Vector[float], acp.List[bytes], acp.Request[None]:
        assert "[" in repr(annotation)
    if only(-1):
        with acp.Map[str, int]({"a": 1}) as m:
            assert type(m) is acp.Map
