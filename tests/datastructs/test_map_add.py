"""Adding to a map is one command: no step is lost. The sums are those of Python, or of the type."""

import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from support import SLOW_ROAD, only, refused, right, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

INTEGERS = "bhiqBHIQ"
NUMBERS = st.one_of(
    st.integers(-300, 300), st.integers(-(2**70), 2**70), st.booleans(), st.floats(),
    st.builds(lambda bits, n: n << bits, st.integers(0, 1100), st.integers(-(2**60), 2**60)),
)  # fmt: skip


def same(a, b):
    """Return whether these are one value of one type; NaNs are."""
    return type(a) is type(b) and (a == b or (a != a and b != b))


@pytest.mark.parametrize("types", [{}, {"value": "q"}, {"key": "q", "value": "q"}, {"value": "d"}])
def test_no_step_of_any_rank_is_lost_and_each_sees_a_sum_of_its_own(made, types):
    m, count = made(acp.Map, maker=-1, **types), 100 if SLOW_ROAD else 2000
    mine = [m.add(7, 1) for _ in range(count)]
    assert mine == sorted(mine)
    sums = sorted(n for part in acp.allgather(mine) for n in part)
    assert sums == list(range(1, count * acp.procs() + 1))
    acp.sync()
    assert m[7] == count * acp.procs()


def test_a_missing_key_starts_at_0(made):
    objects, numbers, small = (
        made(acp.Map),
        made(acp.Map, key="q", value="q"),
        made(acp.Map, value="f"),
    )
    if only(0):
        assert (objects.add("a", 5), objects["a"]) == (5, 5)
        assert (numbers.add(1, -5), numbers[1]) == (-5, -5)
        assert small.add("a", 0.1) == small["a"] == np.float32(0.1)
    acp.sync()


@hypothesis.settings(max_examples=tries(300), deadline=None, database=None)
@hypothesis.given(terms=st.lists(NUMBERS, min_size=2, max_size=8))
def check_against_python(m, terms):
    total = m["sum"] = terms[0]
    for term in terms[1:]:
        try:
            total = total + term
        except OverflowError:
            with refused(OverflowError, "Map.add", "'sum'"):
                m.add("sum", term)
        else:
            assert same(m.add("sum", term), total)
        assert same(m["sum"], total)


def test_objects_are_added_as_python_adds_them(made):
    m = made(acp.Map, ranks=[acp.procs() - 1])
    if only(0):
        check_against_python(m)
    acp.sync()


def test_an_int_that_becomes_a_float_is_rounded_as_python_rounds_it(made):
    """Between two floats a last digit decides, however far away it is."""
    m = made(acp.Map, ranks=[acp.procs() - 1])
    if only(0):
        for last, bits, low in itertools.product(range(8), (1, 3, 10, 11, 60, 500), (-1, 0, 1)):
            for n in (((2**53 + last) << bits) + low, -((2**53 + last) << bits) - low):
                m["n"] = n
                assert same(m.add("n", 0.0), float(n))
    acp.sync()


def test_ints_of_any_size_do_not_wrap(made):
    m = made(acp.Map, ranks=[acp.procs() - 1])
    if only(0):
        for large in (2**64, -(2**64), 1 << 60_000, -(1 << 65_530), (1 << 490_000) - 1):
            for first, second in ((large, 1), (1, large), (large, large), (large, -large)):
                m["n"] = first
                assert m.add("n", second) == m["n"] == first + second
            assert m.pop("n") == large - large
            assert m.add("n", large) == m["n"] == large
        m["n"] = 1 << 600_000
        with refused(OverflowError, "Map.add", "'n'", 65536):
            m.add("n", 1)
        assert m["n"] == 1 << 600_000
    acp.sync()


@pytest.mark.parametrize("letter", INTEGERS)
def test_integers_of_a_type_wrap(made, letter):
    m, limits = made(acp.Map, key="q", value=letter), np.iinfo(letter)
    if only(-1):
        m[1] = limits.max
        assert m.add(1, 1) == m[1] == limits.min
        assert m.add(1, -1) == m[1] == limits.max
        assert m.add(1, limits.max) == m[1] == (limits.max * 2) - (limits.max - limits.min + 1)
        assert m.add(2, -1) == m[2] == (-1 if limits.min else limits.max)
        for beyond in (limits.max + 1, (limits.min or -limits.max - 1) - 1):
            with refused(OverflowError, "Map.add"):
                m.add(3, beyond)
        assert 3 not in m
    acp.sync()


def test_numbers_of_numpy_and_subclasses_are_numbers(made):
    m, typed = made(acp.Map), made(acp.Map, value="d")

    class Mine(int):
        pass

    if only(0):
        numbers = (
            np.int64(2),
            np.uint8(2),
            np.float32(0.5),
            np.float64(0.5),
            np.bool_(1),
            Mine(3),
            True,
        )
        for delta in numbers:
            plain = float(delta) if delta == 0.5 else int(delta)
            assert same(m.add("n", delta), plain)
            assert same(m.add("n", delta), plain + plain)
            assert same(m.pop("n"), plain + plain)
            assert typed.add(1, delta) == typed.pop(1) == plain
    acp.sync()


def test_what_is_no_number_is_refused_and_stays(made):
    m, typed = made(acp.Map), made(acp.Map, key="q", value="q")
    if only(0):
        for value in ("text", None, [1], (1,), 1j, b"", {}):
            m["n"] = value
            with refused(TypeError, "Map.add", "'n'"):
                m.add("n", 1)
            assert m["n"] == value
            for one, key in ((m, "missing"), (typed, 1)):
                with refused(TypeError, "Map.add"):
                    one.add(key, value)
                assert key not in one
        for array in (np.arange(2), np.array([1]), np.array([0.5])):
            for one in (m, typed):
                with refused(TypeError, "Map.add"):
                    one.add(1, array)
        with pytest.raises(TypeError, match="a key is None"):
            m.add([], 1)
    for kind in ({"value": bytes}, {"value": "?"}, {"value": "S3"}, {"value": "c16"}):
        with acp.Map(**kind) as other, refused(TypeError, "Map.add", "value='q'"):
            other.add(1, 1)
    acp.sync()


def test_what_lies_around_a_sum_stays(made):
    """Sums of all sizes: the value grows, shrinks, and changes its kind among others."""
    m = made(acp.Map, ranks=[right()] if acp.procs() == 1 else [1])
    others = {i: str(i) * (i % 50) for i in range(500)}
    if only(0):
        m.update(others)
        for delta in (1, 2**31, -(2**31), 1 << 2000, -(1 << 2000), 1 << 20, 0.5, 1):
            before = m.get("sum", 0)
            assert m.add("sum", delta) == before + delta
            assert {k: v for k, v in m.items() if k != "sum"} == others
        assert m.statistics().keys == 501
    acp.sync()
