"""The same call by the same ranks gives the same bits: in each run of a job, and by each road."""

import hashlib
import json
from pathlib import Path

import launch
import numpy as np
import pytest

import acp_mpi as acp

# Bytes: one element or two, and both sides of each bound at which another schedule is taken.
SIZES = [8, 1000, 16 << 10, (16 << 10) + 8, 64 << 10, 256 << 10, 1 << 20, (1 << 20) + 8]


def numbers(rank, size, dtype):
    """Return numbers whose sum depends on the order in which they are added."""
    draw = np.random.default_rng((rank, size))
    count = size // np.dtype(dtype).itemsize
    return (draw.normal(size=count) * 10.0 ** draw.integers(-3, 4, count)).astype(dtype)


CALLS = {
    "allreduce": acp.allreduce,
    "allreduce with out": lambda x: acp.allreduce(x, out=np.zeros_like(x)),
    "iallreduce": lambda x: acp.iallreduce(x).wait(),
    "reduce": lambda x: acp.reduce(x, root=acp.procs() - 1),
    "scan": acp.scan,
    "reduce_scatter": lambda x: acp.reduce_scatter(np.concatenate([x] * acp.procs())),
}


def fold_and_write_down(folder, turn):
    """Write down what each call gives; who calls last is another rank each time."""
    with acp.init():
        rank, n, late = acp.rank(), acp.procs(), int(turn)
        found = {}
        for dtype in ("f4", "f8"):
            for size in SIZES:
                x = numbers(rank, size, dtype)
                for name, call in CALLS.items():
                    late += 1
                    if rank == late % n:
                        sum(range(20_000))
                    result = call(x)
                    if result is not None:
                        found[f"{name} {dtype} {size}"] = hashlib.sha256(result).hexdigest()
        Path(folder, str(rank)).write_text(json.dumps(found))


def results(folder, ranks):
    return [json.loads(Path(folder, str(rank)).read_text()) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_each_run_and_each_road_gives_the_same_bits(passes, tmp_path, ranks):
    runs = {}
    for turn, road in enumerate(["any", "any", *launch.ROADS]):
        folder = tmp_path / f"run-{turn}"
        folder.mkdir()
        command = launch.program(fold_and_write_down, folder, turn)
        passes([*launch.mpiexec(ranks), *command], launch.ROADS[road])
        runs[f"run {turn}, {road}"] = results(folder, ranks)
    first, *others = runs.items()
    for run, found in others:
        for rank in range(ranks):
            differ = [what for what in found[rank] if found[rank][what] != first[1][rank][what]]
            assert not differ, f"rank {rank}, {run} and {first[0]}: {differ}"
    for what in first[1][0]:  # what all have, all have alike
        if what.startswith(("allreduce", "iallreduce")):
            assert len({each[what] for each in first[1]}) == 1, what


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("ranks", [3, 4])
def test_these_numbers_would_tell_another_order(dtype, ranks):
    for size in SIZES[1:]:
        each = [numbers(rank, size, dtype) for rank in range(ranks)]
        forward = sum(each[1:], each[0])
        backward = sum(each[-2::-1], each[-1])
        assert forward.tobytes() != backward.tobytes()
