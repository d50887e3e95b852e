"""Drive a pipeline from outside: rank 0 moves blocks between ranks that only compute.

Ranks 1 to procs-1 are the stages. A stage sleeps until its `go` word is raised, turns its input
into its output and counts itself in at rank 0; it never communicates data. In every beat rank 0
moves each output to the next stage's input with third-party copies: the bytes go from stage to
stage and never through rank 0. One handle orders the `go` words after all copies of the beat.

    mpiexec -n 4 python examples/pipeline.py --blocks 64 --length 65536
"""

import argparse
import sys
from typing import NamedTuple

import numpy as np

import acp_mpi as acp

WORD = 8  # bytes of a flag


class Stage(NamedTuple):
    """Where a stage's memory is: global addresses, known to all ranks."""

    input: int
    output: int
    go: int


def transform(stage: int, block: np.ndarray) -> np.ndarray:
    """Return what `stage` makes of a block: order matters, and the result is exact."""
    return block * np.uint64(2 * stage + 1) + np.uint64(stage)


def compute(stage: int, blocks: int, length: int) -> None:
    """Be one stage: compute once a beat, from the first block that arrives to the last."""
    source, result = acp.zeros(length, np.uint64), acp.zeros(length, np.uint64)
    go = acp.zeros(1, np.uint64)
    acp.allgather((acp.query_ga(source), acp.query_ga(result), acp.query_ga(go)))
    finished = acp.bcast(None, root=0)

    for beat in range(stage, stage + blocks):
        acp.wait_until(acp.query_ga(go), ">=", beat)
        result[:] = transform(stage, source)
        acp.fetch_add8(finished, 1)
    acp.sync()  # the last output stays until rank 0 has taken it


def conduct(blocks: int, length: int) -> int:
    """Move `blocks` blocks through all stages, check the results, return how many are wrong."""
    stages = acp.procs() - 1
    data = acp.empty((blocks, length), np.uint64)
    data[:] = np.arange(blocks * length, dtype=np.uint64).reshape(blocks, length)
    results = acp.zeros((blocks, length), np.uint64)
    finished = acp.zeros(1, np.uint64)
    # Word b holds b and never changes: a copy may read it at any time.
    beats = acp.empty(blocks + stages + 1, np.uint64)
    beats[:] = np.arange(len(beats))

    place = [Stage(*addresses) for addresses in acp.allgather((acp.GA_NULL,) * 3)]
    acp.bcast(acp.query_ga(finished), root=0)
    data_ga, results_ga, beats_ga = (acp.query_ga(array) for array in (data, results, beats))
    size = data[0].nbytes

    counted = 0
    for beat in range(1, blocks + stages + 1):
        active = [s for s in range(1, stages + 1) if s <= beat < s + blocks]
        moved = acp.HANDLE_NULL
        for stage in active:
            first_output = data_ga + (beat - 1) * size
            moved = acp.copy(
                place[stage].input, place[stage - 1].output if stage > 1 else first_output, size
            )
        finished_block = beat - 1 - stages
        if finished_block >= 0:
            moved = acp.copy(results_ga + finished_block * size, place[stages].output, size)
        # `order` means that handle and all before it: no stage starts while a copy still runs.
        for stage in active:
            acp.copy(place[stage].go, beats_ga + beat * WORD, WORD, order=moved)
        counted += len(active)
        acp.wait_until(acp.query_ga(finished), ">=", counted)
    acp.complete(acp.HANDLE_ALL)
    acp.sync()

    for stage in range(1, stages + 1):
        data[:] = transform(stage, data)
    return int(np.count_nonzero(np.any(data != results, axis=1)))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=32, help="blocks (default 32)")
    parser.add_argument("--length", type=int, default=4096, help="words in a block (default 4096)")
    arguments = parser.parse_args()
    if arguments.blocks < 1 or arguments.length < 1:
        parser.error("--blocks and --length must be at least 1")
    return arguments


def run(arguments: argparse.Namespace) -> int:
    """Run the pipeline and return the exit code, the same on all ranks."""
    if acp.procs() < 2:
        print("pipeline: needs at least 2 ranks, a conductor and a stage", file=sys.stderr)
        return 2
    wrong = 0
    if acp.rank() == 0:
        wrong = conduct(arguments.blocks, arguments.length)
        if wrong:
            print(f"pipeline: {wrong} of {arguments.blocks} blocks are wrong", file=sys.stderr)
        else:
            stages = acp.procs() - 1
            print(f"pipeline: {arguments.blocks} blocks through {stages} stages, all exact")
    else:
        compute(acp.rank(), arguments.blocks, arguments.length)
    return 1 if acp.bcast(wrong, root=0) else 0


def main() -> int:
    """Start ACP, run, and return the exit code."""
    with acp.init():
        return run(parse_arguments())


if __name__ == "__main__":
    sys.exit(main())
