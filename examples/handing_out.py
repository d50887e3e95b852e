"""Hand out work by messages: whoever is done asks for more.

Rank 0 has a list of intervals and gives one to each rank that asks, which integrates 4 / (1 + x²)
over it and sends the result with its next question. Intervals take different times, and nobody
waits for the slowest. With one rank, rank 0 does the work itself.

    mpiexec -n 4 python examples/handing_out.py [--pieces 200] [--points 20000]
"""

import argparse
import math
import sys

import numpy as np

import acp_mpi as acp

QUESTION, ANSWER = 1, 2


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pieces", type=int, default=200, help="intervals of 0 to 1 (200)")
    parser.add_argument("--points", type=int, default=20000, help="in each, more or less (20000)")
    arguments = parser.parse_args()
    if arguments.pieces < 1 or arguments.points < 1:
        parser.error("--pieces and --points must be at least 1")
    return arguments


def integrate(begin: float, end: float, points: int) -> float:
    """Return the integral by the midpoint rule."""
    width = (end - begin) / points
    x = begin + width * (np.arange(points) + 0.5)
    return float((4 / (1 + x * x)).sum() * width)


def hand_out(pieces: list[tuple[float, float, int]]) -> tuple[float, dict[int, int]]:
    """Give each piece to the next rank that asks; return the sum, and who did how many."""
    total, done = 0.0, dict.fromkeys(acp.ranks()[1:], 0)
    waiting, left = len(pieces), len(done)
    status = acp.Status()
    while left:
        result = acp.recv(tag=QUESTION, status=status)
        if result is not None:
            total += result
            done[status.source] += 1
        if waiting:
            waiting -= 1
            acp.send(pieces[waiting], status.source, ANSWER)
        else:
            left -= 1
            acp.send(None, status.source, ANSWER)
    return total, done


def work() -> None:
    """Ask for pieces until there are none."""
    result = None
    while True:
        acp.send(result, 0, QUESTION)
        piece = acp.recv(source=0, tag=ANSWER)
        if piece is None:
            return
        result = integrate(*piece)


def run(count: int, points: int) -> int:
    """Hand out and work; return the exit code."""
    edges = np.linspace(0, 1, count + 1).tolist()
    pieces = [(edges[i], edges[i + 1], 1 + points * (1 + i % 7) // 4) for i in range(count)]
    if acp.rank() > 0:
        work()
        return 0
    if acp.procs() == 1:
        total, done = sum(integrate(*piece) for piece in pieces), {0: count}
    else:
        total, done = hand_out(pieces)
    print(f"pi is {total:.10f}; " + ", ".join(f"rank {r} did {n}" for r, n in done.items()))
    if sum(done.values()) == count and abs(total - math.pi) < 1e-6:
        return 0
    print("handing_out: that is not pi; more --points are needed", file=sys.stderr)
    return 1


if __name__ == "__main__":
    arguments = parse_arguments()
    with acp.init():
        code = run(arguments.pieces, arguments.points)
    sys.exit(code)
