"""Sets and multisets: what set and Counter do, from every rank, on every road."""

from collections import Counter

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from support import only, refused, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

KEY = st.one_of(st.integers(0, 9), st.sampled_from(["a", "", None, (1, "a"), 1.0]))


def test_a_set_holds_each_key_once(made):
    s = made(acp.Set)
    new = acp.allgather([s.insert(key) for key in ("a", 1, 1.0, True, (1, "b"))])
    assert sum(map(sum, new)) == 3
    assert len(s) == 3
    assert set(s) == {"a", 1, (1, "b")}
    assert np.int64(1) in s
    assert s.retrieve("a")
    assert "b" not in s
    acp.sync()
    if acp.rank() == 0:
        assert s.remove("a")
        assert not s.remove("a")
        s.discard("a")
        s.add("c")
        s.update(["c", "d"])
        assert set(s) == {1, (1, "b"), "c", "d"}
        assert s.find("d").key == "d"
        assert s.find("a") == s.end()
        s.clear()
        assert s.empty()
        with pytest.raises(TypeError):
            s.insert([1])


def test_sets_of_one_type(made):
    s = made(acp.Set, key="i4")
    s.update(range(acp.rank(), 1000, acp.procs()))
    acp.sync()
    assert sorted(s) == list(range(1000))
    assert sum(acp.allgather(len(s.local))) == 1000
    assert acp.Set.attach(s.ga) == s


@pytest.mark.parametrize("key", ["i4", "V3", "f8"])
def test_arrays_of_keys_go_in_at_once(made, key):
    s, m = made(acp.Set, key=key), made(acp.MultiSet, key=key)
    keys = np.arange(300).astype("S3").view("V3") if key == "V3" else np.arange(300, dtype=key)
    s.update(keys)
    m.update(np.concatenate([keys, keys[:100]]))
    acp.sync()
    assert set(s) == set(keys.tolist())
    assert len(m) == 400 * acp.procs()
    assert m.count(keys[0].item()) == 2 * acp.procs()
    assert m.count(keys[200].item()) == acp.procs()


def test_a_multiset_counts(made):
    m = made(acp.MultiSet)
    counts = [m.insert("a") for _ in range(100)]
    assert counts == sorted(counts)
    acp.sync()
    procs = acp.procs()
    assert m.retrieve("a") == m.count("a") == m["a"] == len(m) == 100 * procs
    acp.sync()
    if acp.rank() == 0:
        assert m.insert("b", 5) == 5
        assert m.remove("b") == 4
        assert m.remove("b", 9) == 0
        assert "b" not in m
        assert m.remove("b") == 0
        assert m.remove_all("a") == 100 * procs
        assert m.remove_all("a") == 0
        m.update("abracadabra")
        m.add("z")
        assert dict(m.items()) == Counter("abracadabraz")
        assert sorted(m) == sorted("abracadabraz")
        assert sorted(m.keys()) == sorted(set("abracadabraz"))
        assert len(m) == 12
        assert m.statistics().keys == 6
        with pytest.raises(ValueError, match="positive"):
            m.insert("a", 0)


def test_counts_that_would_not_fit_are_refused_and_nothing_happens(made):
    for key in (object, "q"):
        m = made(acp.MultiSet, key=key, maker=-1)
        if acp.rank() == acp.procs() - 1:
            assert m.insert(1, 2**63) == m.size() == 2**63
            for change in (
                lambda m=m: m.insert(1, 2**63),
                lambda m=m: m.update([1] * 2**5 if m.insert(1, 2**63 - 31) else []),
            ):
                with refused(OverflowError, "MultiSet.insert|MultiSet.update"):
                    change()
                assert 1 in m
                assert m.count(1) >= 2**63
            assert m.count(1) == 2**64 - 1
            assert not m.empty()
            assert not m.local.empty() or acp.rank() not in {m._where(1)[0]}
            other = next(k for k in range(2, 10**6) if m._where(k)[:2] == m._where(1)[:2])
            with refused(OverflowError, "MultiSet.insert", 1):
                m.insert(other)
            assert other not in m
            part, stripe, _ = m._where(1)
            far = next(
                k for k in range(2, 10**6) if m._where(k)[0] == part and m._where(k)[1] != stripe
            )
            m.insert(far, 2**63)  # more in all than a word can say
            with refused(OverflowError, "MultiSet.size", "2**64"):
                m.size()
            assert m
            assert m.remove(1, 2**64 - 1) == 0
            with refused(OverflowError, "MultiSet.insert", 2**64):
                m.insert(1, 2**64)
            with refused(TypeError, "MultiSet.remove", 1.5):
                m.remove(1, 1.5)


def test_local_and_discard_of_a_multiset(made):
    m = made(acp.MultiSet, key="q")
    if acp.rank() == 0:
        m.update([1, 1, *range(2, 50)])
        m.discard(1)
        m.discard(2)
        m.discard(2)
    acp.sync()
    mine = dict(m.local.items())
    assert set(mine.values()) <= {1}
    assert sorted(m.local.keys()) == sorted(mine) == sorted(m.local)
    assert sorted(k for keys in acp.allgather(list(mine)) for k in keys) == [1, *range(3, 50)]


def test_assign_merge_swap(made):
    a, b = made(acp.MultiSet, ranks=[0]), made(acp.MultiSet)
    s, t = made(acp.Set), made(acp.Set, ranks=[0])
    acp.sync()
    if acp.rank() == 0:
        a.update("aab")
        b.update("abc")
        a.merge(b)
        assert (dict(a.items()), len(b)) == (Counter("aaabbc"), 0)
        b.assign(a)
        assert (dict(b.items()), len(b)) == (Counter("aaabbc"), 6)
        b.update("d")
        b.swap(a)
        assert (len(a), len(b)) == (7, 6)
        s.update("ab")
        t.update("bc")
        s.merge(t)
        assert (set(s), set(t)) == (set("abc"), set("b"))
        t.move(s)
        assert (set(s), set(t)) == (set(), set("abc"))


def test_what_is_counted_while_a_multiset_is_merged_stays_in_it(made):
    a, b = made(acp.MultiSet), made(acp.MultiSet)
    if only(-1):
        b.update("aab")

        def between():  # what others do while the elements are on their way
            yield from b.items()
            b.update("ac")

        a._merge_in(between(), b)
        assert dict(a.items()) == Counter("aab")
        assert dict(b.items()) == Counter("ac")


STEP = st.one_of(
    st.tuples(st.sampled_from(["insert", "remove", "remove_all", "retrieve"]), KEY),
    st.tuples(st.just("update"), st.lists(KEY, max_size=20)),
    st.tuples(st.just("clear"), st.none()),
)


def foresee_set(model, kind, key):
    match kind:
        case "insert":
            new = key not in model
            model.add(key)
            return new
        case "remove" | "remove_all":
            there = key in model
            model.discard(key)
            return there
        case "retrieve":
            return key in model
        case "update":
            model.update(key)
        case "clear":
            model.clear()
    return None


def foresee_counter(model, kind, key):
    match kind:
        case "insert":
            model[key] += 1
            return model[key]
        case "remove":
            model[key] = max(model[key] - 1, 0)
            return model[key]
        case "remove_all":
            return model.pop(key, 0)
        case "retrieve":
            return model[key]
        case "update":
            model.update(key)
        case "clear":
            model.clear()
    return None


def act(container, kind, key):
    if kind == "remove_all" and isinstance(container, acp.Set):
        kind = "remove"
    method = getattr(container, kind)
    return method() if kind == "clear" else method(key)


def test_they_do_what_set_and_counter_do(made):
    s, m = made(acp.Set), made(acp.MultiSet)

    @hypothesis.settings(max_examples=tries(40))
    @hypothesis.given(st.lists(STEP, max_size=40))
    def agree(steps):
        keys, counts = set(), Counter()
        if only(0):
            s.clear()
            m.clear()
        for turn, step in enumerate(steps):
            acp.sync()
            expected = foresee_set(keys, *step), foresee_counter(counts, *step)
            if acp.rank() == turn % acp.procs():
                assert (act(s, *step), act(m, *step)) == expected
        acp.sync()
        assert set(s) == keys
        assert len(s) == len(keys)
        assert dict(m.items()) == {k: n for k, n in counts.items() if n}
        assert len(m) == counts.total()
        acp.sync()

    agree()


def test_a_multiset_takes_counts_of_a_mapping_as_counter_does(made):
    m = made(acp.MultiSet)
    if only(0):
        m.update(Counter("aab"))
        m.update({"a": 3, "c": 1})
        assert dict(m.items()) == {"a": 5, "b": 1, "c": 1}
        for counts, error in (({"a": 0}, ValueError), ({"a": "b"}, TypeError)):
            with refused(error, "MultiSet.update"):
                m.update(counts)
        for counts in ({"a": 0}, {"a": -1}):  # of neither is 0 the next thing to try
            with refused(ValueError, "MultiSet.update", "use 1 or more"):
                m.update(counts)
        m.update({})
        assert len(m) == 7
    acp.sync()


@pytest.mark.parametrize("kind", [acp.Map, acp.Set, acp.MultiSet])
def test_what_has_no_order_cannot_be_reversed(kind):
    with kind(ranks=[acp.rank()]) as one, pytest.raises(TypeError, match="not reversible"):
        reversed(one)


@pytest.mark.parametrize("kind", [acp.Set, acp.MultiSet])
def test_one_thing_is_no_keys(kind):
    with kind(ranks=[acp.rank()]) as one, refused(TypeError, f"{kind.__name__}.update", 5):
        one.update(5)
