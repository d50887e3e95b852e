"""Measure how long it takes from Spawn to the first message of the last child: ours and both MPIs'.

    python benchmarks/spawning.py [--rounds 3] [--quick] [--other PYTHON]

The same unmodified program, under each MPI with its dynamic processes and with groups that join the
job, all in turn: one group of so many children, and 32 groups of one, which Spawn starts one after
the other. The row after that has a program of ours on our side, that starts all of them by one call
of `spawn_groups`. The last two are of a message to a child and back, once there is one. Children
are workers: they say who they are and wait for work, while others are still started. Medians of the
wall time inside the parent; its own start is not counted. Beside one group stands what nobody can
do without who starts ranks by a launcher: `mpiexec` and `from mpi4py import MPI`, with the settings
that our Spawn gives it. `--other` names a Python with the other
MPI, by default the one of the environment beside this one. A slow figure is no error; a run that
fails is.
"""

import argparse
import functools
import itertools
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from both import NAMES, pythons, surroundings
from harness import Goal, Row, positive, print_environment, progress, table
from jobs import LAUNCHER, JobError, launcher, run

from acp_mpi.launch.macprun.hints import NO_NETWORK

OF_MPI, SPAWN, AT_ONCE, ALONE = "MPI's Spawn", "our Spawn", "spawn_groups", "mpiexec alone"
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


def launch_alone(groups: int, children: int) -> None:
    """Start ranks that import mpi4py by `mpiexec`, hear of all, print the seconds."""
    child = "import os; from mpi4py import MPI; os.write(1, b'here\\n')"  # a line at once
    command = [launcher(sys.executable), "-n", str(children), sys.executable, "-P", "-c", child]
    env = NO_NETWORK | os.environ
    began = time.perf_counter()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as ranks:
        assert ranks.stdout is not None
        check_alone([ranks.stdout.readline() for _ in range(children)])
        print(f"seconds {time.perf_counter() - began:.6f}", flush=True)


def check_alone(heard: list[str]) -> None:
    """Raise RuntimeError unless each rank has said that it is there."""
    if heard != ["here\n"] * len(heard):
        raise RuntimeError(f"the ranks of mpiexec said {heard}")


TASKS: dict[str, Callable[..., None]] = {
    "start": parent,
    "start alone": launch_alone,
    "start all": parent_of_all,
    "talk": parent_that_talks,
    "answer": answer,
}


def once(python: str, way: str, task: str, *numbers: int) -> dict[str, float]:
    """Return the seconds that one run prints, by name; JobError if it did not come to its end."""
    command = [python, __file__, "--task", task]
    if way != ALONE:
        command = [launcher(python), "-n", "1", *command]
    env = os.environ | LAUNCHER | {"ACP_SPAWN": str(int(way == SPAWN))}
    output, status = run([*command, *map(str, numbers)], env, LIMIT)
    said = re.findall(r"^(\w*) ?seconds ([\d.]+)$", output, re.MULTILINE)
    if status or not said:
        tail = "\n".join(output.splitlines()[-25:])
        raise JobError(f"{python}: {task} {numbers} by {way}: exit status {status}\n{tail}")
    return {name: float(seconds) for name, seconds in said}


def compare(
    mpis: dict[str, str], groups: int, children: int, goals: Goals, rounds: int
) -> list[Row]:
    """Return the medians of our ways beside each MPI's own; all of them begin in turn."""
    alone = (ALONE,) if groups == 1 else ()
    sides = list(itertools.product(mpis, (OF_MPI, *goals, *alone)))
    times: dict[tuple[str, str], list[float]] = {side: [] for side in sides}
    for number in range(rounds):
        progress(f"{groups} x {children}: round {number + 1} of {rounds}")
        first = number % len(sides)
        for mpi, way in sides[first:] + sides[:first]:
            task = {AT_ONCE: "start all", ALONE: "start alone"}.get(way, "start")
            times[mpi, way].append(once(mpis[mpi], way, task, groups, children)[""])
    medians = {side: statistics.median(each) for side, each in times.items()}
    what = f"{groups} group{'s' * (groups > 1)} of {children}, {{}} to the last first message"
    return [
        Row(
            what.format(way),
            "s",
            medians[mpi, way],
            f"{NAMES[mpi]}'s {'mpiexec alone' if against == ALONE else 'Spawn'}",
            medians[mpi, against],
            Goal(times=None if against == ALONE else goal),
        )
        for mpi in mpis
        for way, goal in goals.items()
        for against in (OF_MPI, *alone)
    ]


def talk(mpi: str, python: str, quick: bool) -> list[Row]:
    """Return what a message to a spawned child and back takes, ours beside that MPI's; in turn."""
    rounds = 1 if quick else 3
    times: dict[str, list[dict[str, float]]] = {OF_MPI: [], SPAWN: []}
    for number in range(rounds):
        progress(f"messages: round {number + 1} of {rounds}")
        for way in times:
            times[way].append(once(python, way, "talk", SLICES, COUNT))
    ours, theirs = (
        {name: 1e6 * statistics.median(each[name] for each in times[way]) for name in TALK}
        for way in (SPAWN, OF_MPI)
    )
    against = f"{NAMES[mpi]}'s Spawn"
    return [
        Row(f"half a round trip, {what}", "µs", ours[name], against, theirs[name])
        for name, what in TALK.items()
    ]


def main(argv: Sequence[str]) -> int:
    """Measure and print; return the exit status: 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="default: 3")
    parser.add_argument("--quick", action="store_true", help="few children, one round")
    parser.add_argument("--other", metavar="PYTHON", help="a Python with the other MPI")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.task:
        task, *numbers = options.task
        TASKS[task](*map(int, numbers))
        return 0
    try:
        mpis = pythons(options.other)
    except JobError as reason:
        parser.error(str(reason))
    rounds = 1 if options.quick else options.rounds
    measures: list[Callable[[], list[Row]]] = [
        functools.partial(compare, mpis, *case, goals, rounds)
        for case, goals in (QUICK if options.quick else CASES).items()
    ]
    for mpi, python in mpis.items():
        if mpi == "mpich":
            progress("messages: left out, the second one to a child of MPICH 5.0.2 does not arrive")
        else:
            measures.append(functools.partial(talk, mpi, python, options.quick))
    rows: list[Row] = []
    failures = 0
    for measure in measures:
        try:
            rows += measure()
        except JobError as reason:
            failures += 1
            progress(f"FAILED {reason}")
    print_environment(surroundings(mpis))
    print(table(rows))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
