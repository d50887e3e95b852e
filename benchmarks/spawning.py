"""Measure how long it takes from Spawn to the first message of the last child: ours and MPI's.

    python benchmarks/spawning.py [--rounds 3] [--quick]

The same unmodified program, with MPI's dynamic processes and with groups that join the job, in
turn: one group of so many children, and 32 groups of one, which Spawn starts one after the other.
The row after that has a program of ours on our side, that starts all of them by one call of
`spawn_groups`. The last two are of a message to a child and back, once there is one. Children are
workers: they say who they are and wait for work, while others are still started. Medians of the
wall time inside the parent; its own start is not counted. Run it with the Python beside each MPI. A
slow figure is no error; a run that fails is.
"""

import argparse
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from harness import Goal, Row, environment, positive, print_environment, progress, table
from jobs import LAUNCHER, JobError, launcher, run

OF_MPI, SPAWN, AT_ONCE = "MPI's Spawn", "our Spawn", "spawn_groups"
Goals = dict[str, float | None]
CASES: dict[tuple[int, int], Goals] = {
    (1, 1): {SPAWN: 1.0},
    (1, 4): {SPAWN: 1.0},
    (1, 16): {SPAWN: 1.0},
    (1, 32): {SPAWN: 1.0},
    (32, 1): {SPAWN: 0.25, AT_ONCE: 0.25},
}
"""Groups and children of each; of our ways, at most so many times the time of MPI's."""
QUICK: dict[tuple[int, int], Goals] = {
    (1, 1): {SPAWN: 1.0},
    (1, 4): {SPAWN: 1.0},
    (4, 1): {SPAWN: None, AT_ONCE: None},
}
LIMIT = 120.0  # s for one run
CHILD = (
    "from mpi4py import MPI; parent = MPI.Comm.Get_parent();"
    "parent.send(MPI.COMM_WORLD.Get_rank(), 0); parent.recv(); parent.Disconnect()"
)
CHILD_OF_OURS = (
    "from mpi4py import MPI; import acp_mpi as acp; acp.init();"
    "acp.send(MPI.COMM_WORLD.Get_rank(), 0); acp.recv(source=0); acp.finalize()"
)


TALK = {"array": "Send and Recv of 8 B", "object": "send and recv of a number"}
SLICES, COUNT = 9, 2000


def check(heard: list[int]) -> None:
    """Raise RuntimeError unless each child of a group has said its own number."""
    if sorted(heard) != list(range(len(heard))):
        raise RuntimeError(f"the children of a group said that they are {heard}")


def parent(groups: int, children: int) -> None:
    """Spawn the groups one after the other, hear of all children, print the seconds."""
    from mpi4py import MPI

    began = time.perf_counter()
    comms = [MPI.COMM_SELF.Spawn(sys.executable, ["-c", CHILD], children) for _ in range(groups)]
    for comm in comms:
        check([comm.recv() for _ in range(children)])
    print(f"seconds {time.perf_counter() - began:.6f}", flush=True)
    for comm in comms:
        for child in range(children):
            comm.send("done", child)
        comm.Disconnect()


def parent_that_talks(slices: int, count: int) -> None:
    """Spawn one child; print what half a round trip of an array and an object takes with it."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_SELF.Spawn(sys.executable, [__file__, "--task", "answer"], 1)
    out, back = np.ones(1), np.zeros(1)

    def arrays() -> None:
        for _ in range(count):
            comm.Send(out, 0)
            comm.Recv(back)

    def objects() -> None:
        for number in range(count):
            comm.send(number, 0)
            assert comm.recv() == number

    times: dict[str, list[float]] = {"array": [], "object": []}
    for _ in range(slices):
        comm.send(count, 0)
        for name, exchange in (("array", arrays), ("object", objects)):
            began = time.perf_counter()
            exchange()
            times[name].append((time.perf_counter() - began) / count / 2)
    assert back[0] == 1
    comm.send(0, 0)
    comm.Disconnect()
    for name in times:
        print(f"{name} seconds {statistics.median(times[name]):.9f}", flush=True)


def answer() -> None:
    """Answer the parent, as its child."""
    import numpy as np
    from mpi4py import MPI

    comm, number = MPI.Comm.Get_parent(), np.zeros(1)
    for count in iter(comm.recv, 0):
        for _ in range(count):
            comm.Recv(number)
            comm.Send(number, 0)
        for _ in range(count):
            comm.send(comm.recv(), 0)
    comm.Disconnect()


def parent_of_all(groups: int, children: int) -> None:
    """Start the groups by one call, hear of all children, print the seconds."""
    import acp_mpi as acp

    with acp.init():
        began = time.perf_counter()
        command = [sys.executable, "-P", "-c", CHILD_OF_OURS]
        started = acp.spawn_groups([(command, children)] * groups)
        for group in started:
            check([acp.recv(source=rank) for rank in group.ranks])
        print(f"seconds {time.perf_counter() - began:.6f}", flush=True)
        for group in started:
            for rank in group.ranks:
                acp.send("done", rank)


TASKS: dict[str, Callable[..., None]] = {
    "start": parent,
    "start all": parent_of_all,
    "talk": parent_that_talks,
    "answer": answer,
}


def once(way: str, task: str, *numbers: int) -> dict[str, float]:
    """Return the seconds that one run prints, by name; JobError if it did not come to its end."""
    command = [launcher(), "-n", "1", sys.executable, __file__, "--task", task]
    env = os.environ | LAUNCHER | {"ACP_SPAWN": str(int(way == SPAWN))}
    output, status = run([*command, *map(str, numbers)], env, LIMIT)
    said = re.findall(r"^(\w*) ?seconds ([\d.]+)$", output, re.MULTILINE)
    if status or not said:
        tail = "\n".join(output.splitlines()[-25:])
        raise JobError(f"{task} {numbers} by {way}: exit status {status}\n{tail}")
    return {name: float(seconds) for name, seconds in said}


def compare(groups: int, children: int, goals: Goals, rounds: int) -> list[Row]:
    """Return the medians of our ways beside MPI's; they begin in turn."""
    ways = [OF_MPI, *goals]
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        progress(f"{groups} x {children}: round {number + 1} of {rounds}")
        first = number % len(ways)
        for way in ways[first:] + ways[:first]:
            task = "start all" if way == AT_ONCE else "start"
            times[way].append(once(way, task, groups, children)[""])
    medians = {way: statistics.median(each) for way, each in times.items()}
    what = f"{groups} group{'s' * (groups > 1)} of {children}, {{}} to the last first message"
    return [
        Row(what.format(way), "s", medians[way], OF_MPI, medians[OF_MPI], Goal(times=goal))
        for way, goal in goals.items()
    ]


def talk(quick: bool) -> list[Row]:
    """Return what a message to a spawned child and back takes, ours beside MPI's; in turn."""
    rounds = 1 if quick else 3
    times: dict[str, list[dict[str, float]]] = {OF_MPI: [], SPAWN: []}
    for number in range(rounds):
        progress(f"messages: round {number + 1} of {rounds}")
        for way in times:
            times[way].append(once(way, "talk", SLICES, COUNT))
    ours, theirs = (
        {name: 1e6 * statistics.median(each[name] for each in times[way]) for name in TALK}
        for way in (SPAWN, OF_MPI)
    )
    return [
        Row(f"half a round trip, {what}", "µs", ours[name], OF_MPI, theirs[name], Goal())
        for name, what in TALK.items()
    ]


def main(argv: Sequence[str]) -> int:
    """Measure and print; return the exit status: 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="default: 3")
    parser.add_argument("--quick", action="store_true", help="few children, one round")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.task:
        task, *numbers = options.task
        TASKS[task](*map(int, numbers))
        return 0
    rounds = 1 if options.quick else options.rounds
    rows: list[Row] = []
    failures = 0
    for case, goals in (QUICK if options.quick else CASES).items():
        try:
            rows += compare(*case, goals, rounds)
        except JobError as reason:
            failures += 1
            progress(f"FAILED {reason}")
    here = environment()
    try:
        if here["MPI name"] == "MPICH":
            progress("messages: left out, the second one to a child of MPICH 5.0.2 does not arrive")
        else:
            rows += talk(options.quick)
    except JobError as reason:
        failures += 1
        progress(f"FAILED {reason}")
    print_environment(here)
    print(table(rows))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
