"""A wild pointer writes into what one rank shares: calls of others fail with an error, or go on."""

import contextlib
import ctypes
import os
import random
import re
import threading
from pathlib import Path

import launch
import pytest
import support

import acp_mpi as acp

SEEDS = support.tries(12)


def own_memory():
    """Return where this process has its own shared memory: the largest of such mappings."""
    found = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/memfd:acp_mpi (deleted)"):
            low, high = (int(text, 16) for text in re.match(r"(\w+)-(\w+)", line).groups())
            found[high - low] = low
    return found[max(found)]


def write_wildly(noise, places, over):
    """Write words into the first bytes of what holds containers, until `over`."""
    words = [0, 1, 2**64 - 1, 0x2020202020202020, id(noise)]
    while not over.wait(0.001):
        for _ in range(noise.randrange(1, 50)):
            at = noise.choice(places) + 8 * noise.randrange(512)
            word = noise.choice([*words, noise.getrandbits(64), noise.randrange(4096)])
            ctypes.c_uint64.from_address(at).value = word


def use(noise, containers):
    numbers, objects, listed, row, counter = containers
    key = noise.randrange(50)
    calls = [
        lambda: numbers.__setitem__(key, key), lambda: numbers.get(key),
        lambda: numbers.pop(key, 0),
        lambda: objects.__setitem__(str(key), "x" * noise.randrange(900)),
        lambda: objects.get(str(key)), lambda: list(objects.items()), lambda: len(numbers),
        lambda: listed.append({"key": key}), lambda: listed.pop(), lambda: list(listed),
        lambda: row.append(key), lambda: row[:], lambda: row.pop(), lambda: list(counter.take(2)),
        lambda: acp.free(acp.malloc(noise.randrange(1, 4000), rank=0)),
        lambda: acp.put(acp.query_starter_ga(0), bytes(64)), lambda: repr(objects),
        lambda: acp.Map(ranks=[0], key="q", value="q"),
    ]  # fmt: skip
    noise.choice(calls)()


def call_meanwhile(seed):
    acp.init()
    rank, noise, over = acp.rank(), random.Random(int(seed) + acp.rank()), threading.Event()
    containers = None
    if rank == 0:
        containers = (
            acp.Map(key="q", value="q", ranks=[0]), acp.Map(ranks=[0]), acp.List(rank=0),
            acp.Vector(dtype="q", rank=0), acp.Counter(rank=0),
        )  # fmt: skip
    containers = acp.bcast(containers, 0)
    for _ in range(200):
        with contextlib.suppress(KeyError, IndexError):
            use(noise, containers)
    acp.sync()
    if rank == 0:
        first = acp.malloc(64, rank=0)
        base = own_memory()
        low = base + (first & (2**40 - 1)) - 2**18
        places = [low + 4096 * page for page in range(2**18 // 4096 + 16)]
        writer = threading.Thread(target=write_wildly, args=(noise, places, over))
        writer.start()
    for _ in range(600):
        try:
            use(noise, containers)
        except SystemError:
            raise
        except Exception:
            continue
    print("lives", flush=True)
    if rank == 0:
        launched = Path(os.environ["ACP_TEST_WILD"])
        while len(list(launched.iterdir())) < 2:
            over.wait(0.01)
        over.set()
    else:
        Path(os.environ["ACP_TEST_WILD"], str(rank)).touch()
    os._exit(0)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_ranks_live_on_beside_a_wild_pointer(without_mpi, tmp_path, seed):
    said = tmp_path / "said"
    said.mkdir()
    jobs = without_mpi(3, launch.program(call_meanwhile, str(seed)), {"ACP_TEST_WILD": str(said)})
    for job in jobs:
        assert job.wait() == 0, job.output
        assert "lives" in job.output
