"""The same program with its data in three places: here, on another rank, spread over all.

Where a container lives is one argument; what the program does and what comes out stays the same.
Rank 0 runs it and prints how long a call takes in each place, while all others wait.

    mpiexec -n 4 python examples/placement.py [--elements 2000]
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import acp_mpi as acp


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=2000, help="in each container (2000)")
    arguments = parser.parse_args()
    if arguments.elements < 2:
        parser.error(f"--elements {arguments.elements}: half of them are taken out; give 2 or more")
    return arguments


class Stopwatch:
    """Runs a call once for each element and keeps the time of one call."""

    def __init__(self) -> None:
        self.microseconds: dict[str, float] = {}

    def each(self, name: str, call: Callable[[int], object], elements: Iterable[int]) -> list[Any]:
        """Return what the calls returned."""
        elements = list(elements)
        start = time.perf_counter()
        results = [call(element) for element in elements]
        self.microseconds[name] = (time.perf_counter() - start) * 1e6 / len(elements)
        return results


def program(rank: int, ranks: list[int], count: int) -> tuple[object, dict[str, float]]:
    """Use containers on `rank` and `ranks`; return the results, and the time of each call in µs."""
    watch = Stopwatch()
    with (
        acp.Counter(rank=rank) as tickets,
        acp.Vector("q", rank=rank) as squares,
        acp.Map(ranks=ranks, rank=rank, key="q", value="d") as roots,
    ):
        turns = watch.each("Counter.next", lambda _: tickets.next(), range(count))
        watch.each("Vector.push_back", lambda i: squares.push_back(i * i), turns)
        last = watch.each("Vector.pop_back", lambda _: squares.pop_back(), range(count // 2))
        watch.each("Map.insert", lambda i: roots.insert(i, i**0.5), turns)
        found = watch.each("Map.find", lambda i: roots[i], turns)
        results = (
            turns[-1],
            len(squares),
            last[-1],
            sum(found),
            len(roots),
            sorted(roots) == turns,
        )
    return results, watch.microseconds


def run(count: int) -> int:
    """Run the program in each place, compare, print the table, and return the exit code."""
    everybody = acp.ranks()
    other = everybody[-1]
    places = {
        "on rank 0": (0, [0]),
        f"on rank {other}": (other, [other]),
        "spread": (other, everybody),
    }
    results, times = [], {}
    for name, (rank, ranks) in places.items():
        result, times[name] = program(rank, ranks, count)
        results.append(result)
    print(f"{'µs a call':20}" + "".join(f"{name:>14}" for name in places))
    for call in times["spread"]:
        print(f"{call:20}" + "".join(f"{times[name][call]:14.3f}" for name in places))
    if results != [results[0]] * len(results):
        print(f"placement: the results differ: {results}", file=sys.stderr)
        return 1
    print("the same results in all places")
    return 0


def main() -> int:
    """Start ACP, run on rank 0, and return the exit code."""
    arguments = parse_arguments()
    with acp.init():
        status = run(arguments.elements) if acp.rank() == 0 else 0
        acp.sync()
    return status


if __name__ == "__main__":
    sys.exit(main())
