"""Lists against lists of Python: any steps, from changing ranks."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import alone, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

value = st.integers(-(2**63), 2**63 - 1)
values = st.lists(value, max_size=12)
place = st.integers(0, 30)
STEPS = st.one_of(
    *(st.tuples(st.just(name), value, place, place) for name in (
        "push_back", "push_front", "pop_back", "pop_front", "insert", "erase", "erase_range",
        "remove", "reverse", "sort", "unique", "clear", "splice", "splice_range", "swap", "fill",
        "move",
    )),
    *(st.tuples(st.just(name), values, place, place) for name in ("extend", "assign", "merge")),
)  # fmt: skip


def cursor(one, index):
    return one.begin().advance(index)


def perform(step, one, other, rank):
    """Do a step with two lists of the library; `rank` is where elements go."""
    name, x, i, j = step
    i, j = i % (len(one) + 1), j % (len(other) + 1)
    match name:
        case "push_back" | "push_front":
            getattr(one, name)(x, rank)
        case "pop_back" | "pop_front":
            with pytest.raises(IndexError) if not one else open("/dev/null"):
                getattr(one, name)()
        case "insert":
            assert one.insert(cursor(one, i), x, rank).value == x
        case "erase" if i < len(one):
            one.erase(cursor(one, i))
        case "erase_range":
            one.erase_range(cursor(one, i // 2), cursor(one, i))
        case "remove":
            one.remove(x)
        case "reverse":
            one.reverse()
        case "sort":
            one.sort(reverse=bool(i % 2))
        case "unique":
            one.unique()
        case "clear":
            one.clear()
        case "splice":
            one.splice(cursor(one, i), other)
        case "splice_range":
            one.splice_range(cursor(one, i), cursor(other, j // 2), cursor(other, j))
        case "move" if i < len(one):
            one.splice(cursor(one, i // 2), cursor(one, i))
        case "swap":
            one.swap(other)
        case "fill":
            one.fill(i, x, rank)
        case "extend" | "assign":
            getattr(one, name)(x, rank)
        case "merge":
            one.sort()
            other.assign(sorted(x), rank)
            one.merge(other)


def foresee(step, one, other):
    """Do the same with two lists of Python."""
    name, x, i, j = step
    i, j = i % (len(one) + 1), j % (len(other) + 1)
    match name:
        case "push_back":
            one.append(x)
        case "push_front":
            one.insert(0, x)
        case "pop_back" if one:
            one.pop()
        case "pop_front" if one:
            one.pop(0)
        case "insert":
            one.insert(i, x)
        case "erase" if i < len(one):
            del one[i]
        case "erase_range":
            del one[i // 2 : i]
        case "remove":
            one[:] = [y for y in one if y != x]
        case "reverse":
            one.reverse()
        case "sort":
            one.sort(reverse=bool(i % 2))
        case "unique":
            one[:] = [y for k, y in enumerate(one) if not k or y != one[k - 1]]
        case "clear":
            one.clear()
        case "splice":
            one[i:i] = other
            other.clear()
        case "splice_range":
            one[i:i] = other[j // 2 : j]
            del other[j // 2 : j]
        case "move" if i < len(one):
            one.insert(i // 2, one.pop(i))
        case "swap":
            one[:], other[:] = other[:], one[:]
        case "fill":
            one[:] = [x] * i
        case "extend":
            one += x
        case "assign":
            one[:] = x
        case "merge":
            one[:] = sorted(one + x)
            other.clear()


@pytest.mark.parametrize("dtype", ["q", object])
@pytest.mark.parametrize("apart", [False, True], ids=["beside", "apart"])
def test_any_steps_from_changing_ranks_are_those_of_a_list(made, dtype, apart):
    @settings(max_examples=tries(25))
    @given(steps=st.lists(STEPS, max_size=12), seed=st.integers(0, 1000))
    def steps_agree(steps, seed):
        chance = random.Random(seed)
        one.clear()
        acp.sync()
        other.clear()
        acp.sync()
        model = [], []
        for step in steps:
            actor, rank = chance.randrange(acp.procs()), chance.choice([None, *acp.ranks()])
            if alone(actor):
                perform(step, one, other, rank)
            foresee(step, *model)
            acp.sync()
            if alone(actor + 1):
                assert [list(one), list(other)] == [*model]
                assert list(reversed(one)) == model[0][::-1]
                assert len(one) == len(model[0])
            acp.sync()

    one, other = (
        made(acp.List, dtype=dtype, rank=0),
        made(acp.List, dtype=dtype, rank=acp.procs() - 1 if apart else 0),
    )
    steps_agree()
