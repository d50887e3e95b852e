"""Calls of several ranks on one container have an order that explains what all of them returned.

Each rank notes when a call began and ended, by the clock that the processes of a machine share. A
history linearizes if its calls, one after the other, return the same from a plain Python object,
in an order in which no call comes before one that had ended when it began (Wing and Gong, 1993).
"""

import os
import random
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NamedTuple

import pytest
from support import tries

import acp_mpi as acp

ROUNDS = tries(200)
CALLS = 6
KEYS = 3


class Call(NamedTuple):
    began: int
    ended: int
    name: str
    arguments: tuple[Any, ...]
    result: Any


# What the containers should do: (state, name, arguments) -> (state, result), states hashable ----


def as_map(state: frozenset, name: str, arguments: tuple) -> tuple[frozenset, Any]:
    model = dict(state)
    match name, arguments:
        case "insert", (key, value):
            result = key not in model
            model.setdefault(key, value)
        case "__setitem__", (key, value):
            result = model.__setitem__(key, value)
        case "add", (key, value):
            result = model[key] = model.get(key, 0) + value
        case "setdefault", (key, value):
            result = model.setdefault(key, value)
        case "remove", (key,):
            result = model.pop(key, None) is not None
        case "pop", (key, default):
            result = model.pop(key, default)
        case "get", (key,):
            result = model.get(key)
    return frozenset(model.items()), result


def as_set(state: frozenset, name: str, arguments: tuple) -> tuple[frozenset, Any]:
    (key,) = arguments
    match name:
        case "insert":
            return state | {key}, key not in state
        case "remove":
            return state - {key}, key in state
    return state, key in state


def as_multiset(state: frozenset, name: str, arguments: tuple) -> tuple[frozenset, Any]:
    model, (key,) = dict(state), arguments
    count = model.pop(key, 0)
    before, count = count, {"insert": count + 1, "remove": max(count - 1, 0)}.get(name, count)
    if name == "remove_all":
        count = 0
    if count:
        model[key] = count
    return frozenset(model.items()), before if name == "remove_all" else count


def as_counter(state: int, name: str, arguments: tuple) -> tuple[int, Any]:
    match name:
        case "next":
            return state + arguments[0], state
        case "reset":
            return arguments[0], state
    return state, state


def as_line(state: tuple, name: str, arguments: tuple) -> tuple[tuple, Any]:
    match name:
        case "push_back":
            return state + arguments, None
        case "push_front":
            return arguments + state, None
        case "size":
            return state, len(state)
    if not state:
        return state, IndexError
    return (state[:-1], state[-1]) if name == "pop_back" else (state[1:], state[0])


# The checker ------------------------------------------------------------------------------------


def linearizes(history: list[list[Call]], model: Callable, state: Any) -> bool:
    """Return whether the calls of all ranks, each in its own order, have an order for `model`."""
    seen, todo = set(), [((0,) * len(history), state)]
    while todo:
        done, state = todo.pop()
        following = [calls[n] for calls, n in zip(history, done, strict=True) if n < len(calls)]
        if not following:
            return True
        earliest_end = min(call.ended for call in following)
        for rank, (calls, n) in enumerate(zip(history, done, strict=True)):
            if n == len(calls) or calls[n].began > earliest_end:
                continue
            after, result = model(state, calls[n].name, calls[n].arguments)
            step = ((*done[:rank], n + 1, *done[rank + 1 :]), after)
            if result == calls[n].result and step not in seen:
                seen.add(step)
                todo.append(step)
    return False


WRONG = {
    "both took the same number": (
        as_counter,
        0,
        [[Call(0, 9, "next", (1,), 0)], [Call(1, 8, "next", (1,), 0)]],
    ),
    "a finished write is not read": (
        as_map,
        frozenset(),
        [[Call(0, 2, "__setitem__", (1, 5), None)], [Call(3, 4, "get", (1,), None)]],
    ),
    "a read goes back in time": (
        as_map,
        frozenset(),
        [
            [Call(0, 9, "__setitem__", (1, 5), None)],
            [Call(1, 2, "get", (1,), 5), Call(3, 4, "get", (1,), None)],
        ],
    ),
    "both inserted it": (
        as_set,
        frozenset(),
        [[Call(0, 9, "insert", (1,), True)], [Call(1, 8, "insert", (1,), True)]],
    ),
    "both took the same element": (
        as_line,
        (7, 8),
        [[Call(0, 9, "pop_front", (), 7)], [Call(1, 8, "pop_front", (), 7)]],
    ),
    "an element is lost": (
        as_line,
        (),
        [
            [Call(0, 5, "push_back", (1,), None), Call(6, 7, "size", (), 1)],
            [Call(1, 4, "push_front", (2,), None)],
        ],
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_checker_finds_wrong_histories(what):
    model, state, history = WRONG[what]
    assert not linearizes(history, model, state)


def test_the_checker_finds_the_order_of_right_histories():
    read = [Call(1, 2, "get", (1,), None), Call(3, 4, "get", (1,), 5)]
    assert linearizes([[Call(0, 9, "__setitem__", (1, 5), None)], read], as_map, frozenset())
    ends = [Call(5, 6, "pop_front", (), 2), Call(7, 8, "pop_back", (), 1)]
    pushes = [[Call(0, 4, "push_front", (1,), None)], [Call(1, 3, "push_front", (2,), None)]]
    assert linearizes([*pushes, ends], as_line, ())


# The containers ---------------------------------------------------------------------------------


def key_calls(names: tuple[str, ...], values: tuple[str, ...]) -> Callable:
    """Return what draws a call on one of a few keys; some take a value that no other has."""

    def draw(dice: random.Random, value: int) -> tuple[str, tuple[Any, ...]]:
        name, key = dice.choice(names), dice.randrange(KEYS)
        default = (None,) if name == "pop" else ()
        return name, (key, value) if name in values else (key, *default)

    return draw


def counter_calls(dice: random.Random, value: int) -> tuple[str, tuple[Any, ...]]:
    name = dice.choice(("next", "next", "next", "read", "reset"))
    return name, {"next": (dice.randrange(1, 5),), "reset": (value,)}.get(name, ())


def line_calls(dice: random.Random, value: int) -> tuple[str, tuple[Any, ...]]:
    name = dice.choice(("push_back", "push_front", "pop_back", "pop_front", "pop_front", "size"))
    return name, (value,) if name.startswith("push") else ()


WRITES = ("insert", "__setitem__", "setdefault", "add")
CASES = {
    "map": (
        lambda: acp.Map(key="q", value="q"),
        as_map,
        frozenset(),
        key_calls((*WRITES, "remove", "pop", "get", "get"), WRITES),
    ),
    "map of objects": (
        acp.Map,
        as_map,
        frozenset(),
        key_calls((*WRITES, "remove", "pop", "get", "get"), WRITES),
    ),
    "set": (
        lambda: acp.Set(key="q"),
        as_set,
        frozenset(),
        key_calls(("insert", "remove", "retrieve"), ()),
    ),
    "multiset": (
        lambda: acp.MultiSet(key="q"),
        as_multiset,
        frozenset(),
        key_calls(("insert", "insert", "remove", "remove_all", "retrieve"), ()),
    ),
    "counter": (acp.Counter, as_counter, 0, counter_calls),
    "deque": (lambda: acp.Deque("q"), as_line, (), line_calls),
    "list": (lambda: acp.List(dtype="q"), as_line, (), line_calls),
}


def players_of(number: int, processors: int) -> list[int]:
    """Return who calls in a round: as many ranks as can run at the same time, others each round."""
    count = min(acp.procs(), max(processors, 2))
    return [(number + i) % acp.procs() for i in range(count)]


@pytest.fixture
def processors():
    """Give what this thread may run on, and let it run there again in the end."""
    mine = os.sched_getaffinity(0)
    yield sorted(mine)
    os.sched_setaffinity(0, mine)


def begin_together(gate: acp.Counter, count: int) -> None:
    """Leave when so many ranks are here."""
    number = gate.next() // count + 1
    while gate.read() < number * count:
        os.sched_yield()


def perform(container: Any, name: str, arguments: tuple[Any, ...]) -> Call:
    began = perf_counter_ns()
    try:
        result = getattr(container, name)(*arguments)
    except IndexError:
        result = IndexError
    return Call(began, perf_counter_ns(), name, arguments, result)


@pytest.mark.mpi
@pytest.mark.parametrize("case", CASES)
def test_concurrent_calls_have_an_order(case, processors):
    make, model, empty, draw = CASES[case]
    maker = acp.procs() - 1
    made = (make(), acp.Counter()) if acp.rank() == maker else None
    container, gate = acp.bcast(made, root=maker)
    dice = random.Random(acp.rank() + 1)
    rounds: list[list[Call]] = []
    for number in range(ROUNDS):
        calls = [draw(dice, (number * CALLS + i) * 8 + acp.rank()) for i in range(CALLS)]
        players = players_of(number, len(processors))
        rounds.append([])
        acp.sync()  # the others sleep
        if acp.rank() in players:  # each on a processor of its own: else they take turns
            place = players.index(acp.rank()) % len(processors)
            os.sched_setaffinity(0, {processors[place]})
            begin_together(gate, len(players))
            rounds[-1] += [perform(container, name, arguments) for name, arguments in calls]
        acp.sync()
        if acp.rank() == 0:
            (container.reset if case == "counter" else container.clear)()
    for number, history in enumerate(zip(*acp.allgather(rounds), strict=True)):
        if acp.rank() == number % acp.procs():
            assert linearizes(history, model, empty), history
    acp.sync()
    if acp.rank() == 0:
        container.destroy()
        gate.destroy()
    acp.sync()
