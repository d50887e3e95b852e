"""All containers, changed by four ranks for SOAK_SECONDS (20 minutes): nothing grows.

SOAK_SECONDS=180 .venv/mpich/bin/pytest tests/jobs/test_soak.py -m campaign
"""

import contextlib
import os
import random
import time
from collections.abc import Callable
from typing import NamedTuple

import launch
import numpy as np
import pytest

import acp_mpi as acp

SECONDS = float(os.environ.get("SOAK_SECONDS", "1200"))
ROADS = ("any", "nodes")
STEPS = 300  # of each rank in a round
AREA = 100_000
HEADS = 8  # of containers are kept: as many as were ever wanted at once, which is chance
SPARE = 2 << 20  # bytes by which a process that does the same again and again may differ


class Size(NamedTuple):
    """How large a process is."""

    blocks: int
    committed: int
    descriptors: int
    threads: int
    anonymous: int


def size_now() -> Size:
    with open("/proc/self/status") as status:
        anonymous = next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    heap = acp.heap_statistics()
    return Size(
        heap.blocks,
        heap.committed,
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
        anonymous * 1024,
    )


def change_row(row, dice: random.Random) -> None:
    n, at = dice.randrange(1, 300), dice.randrange(400)
    dice.choice([
        lambda: row.push_back(n),
        row.pop_front,
        lambda: row.extend(np.arange(n)),
        lambda: row.insert(at, n),
        lambda: row.erase(at),
        lambda: row.__delitem__(slice(at, None)),
        lambda: row.__setitem__(slice(at, at + 9), range(n)),
        lambda: row.resize(n),
        row.shrink_to_fit,
        lambda: row.duplicate().destroy(),
        row.tolist,
    ])()  # fmt: skip


def change_list(one, other, dice: random.Random) -> None:
    value, rank = bytes(dice.randrange(70_000)), dice.choice([None, *acp.ranks()])
    dice.choice([
        lambda: one.push_back(value, rank),
        lambda: one.push_front(value[:50]),
        one.pop_back,
        one.pop_front,
        lambda: one.erase(one.begin()),
        lambda: one.insert(one.find(value[:3]), value[:3], rank),
        lambda: one.splice(one.end(), other),
        lambda: one.swap(other),
        lambda: one.sort(key=len),
        one.clear,
        lambda: sum(map(len, one)),
    ])()  # fmt: skip


def change_map(numbers, things, dice: random.Random) -> None:
    keys, key = np.array(dice.choices(range(500), k=100)), dice.randrange(50)
    dice.choice([
        lambda: numbers.accumulate(keys, np.ones(100)),
        lambda: numbers.update(keys, keys / 2),
        lambda: numbers.get_many(keys),
        lambda: numbers.remove(key),
        lambda: things.insert(key, "x" * dice.randrange(20_000)),
        lambda: things.__setitem__(str(key), list(range(key))),
        lambda: things.pop(key, None),
        lambda: things.get(key),
        lambda: sum(1 for _ in things),
        lambda: things.clear() if key == 0 else None,
    ])()  # fmt: skip


def change_rest(distinct, bag, counter, area, dice: random.Random) -> None:
    key, at = dice.randrange(100), dice.randrange(AREA // 2) // 8 * 8
    dice.choice([
        lambda: distinct.insert(key),
        lambda: distinct.remove(key),
        lambda: bag.insert("word" * key),
        lambda: bag.remove("word" * key),
        counter.next,
        lambda: area.write(bytes(key * 300), at),
        lambda: area.accumulate(np.ones(key), at),
        lambda: area.read(bytearray(key * 300), at),
    ])()  # fmt: skip


def make_all() -> tuple:
    last = acp.procs() - 1
    return (
        acp.Vector("q", rank=last), acp.Deque("q"), acp.List(dtype=bytes, rank=last),
        acp.List(dtype=bytes), acp.Map(key="q", value="d"), acp.Map(), acp.Set(key="q"),
        acp.MultiSet(), acp.Counter(rank=last), acp.Workspace(AREA, default_size=1000),
    )  # fmt: skip


def one_round(dice: random.Random) -> None:
    vector, line, one, other, numbers, things, *rest = acp.bcast(
        make_all() if acp.rank() == 0 else None
    )
    changes: list[Callable[[], None]] = [
        lambda: change_row(vector, dice),
        lambda: change_row(line, dice),
        lambda: change_list(*dice.sample([one, other], 2), dice),
        lambda: change_map(numbers, things, dice),
        lambda: change_rest(*rest, dice),
    ]
    for _ in range(STEPS):
        # What another rank has taken out meanwhile, or changed, says so.
        with contextlib.suppress(IndexError, RuntimeError, acp.AddressError):
            dice.choice(changes)()
    acp.sync()
    if acp.rank() == 0:
        for container in (vector, line, one, other, numbers, things, *rest):
            container.destroy()
    acp.sync()


def change_everything(seconds: str) -> None:
    """Change all for so long; no size of the second half is above the largest of the first.

    Only the largest are kept: a size of each round would itself be growth.
    """
    acp.init()
    dice = random.Random(acp.rank())
    half, most = float(seconds) / 2, []
    for _ in range(2):
        rounds, largest = 0, Size(0, 0, 0, 0, 0)
        end = time.monotonic() + half
        while acp.bcast(time.monotonic() < end):
            one_round(dice)
            rounds += 1
            largest = Size(*map(max, zip(largest, size_now(), strict=True)))
            acp.sync()
        print(f"rank {acp.rank()}: {rounds} rounds\n{largest}", flush=True)
        most.append(largest)
    before, after = most
    assert after.blocks <= before.blocks + HEADS
    assert all(now <= was for now, was in zip(after[1:-1], before[1:-1], strict=True))
    assert after.anonymous <= before.anonymous + SPARE
    acp.finalize()


@pytest.mark.campaign
@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("road", ROADS)
def test_nothing_grows_while_all_containers_are_changed(start, road):
    program = launch.program(change_everything, SECONDS / len(ROADS))
    job = start([*launch.mpiexec(4), *program], launch.ROADS[road])
    assert job.wait(SECONDS + 200) == 0, job.output
    print(job.output)
