"""Measure how long it takes from Spawn to the first message of the last child: ours and MPI's.

    python benchmarks/spawning.py [--rounds 3] [--quick]

The same unmodified program, with MPI's dynamic processes and with groups that join the job, in
turn: one group of so many children, and 32 groups of one, which Spawn starts one after the other.
The last row has a program of ours on our side, that starts all of them by one call of
`spawn_groups`. Children are workers: they say who they are and wait for work, while others are
still started. Medians of the wall time inside the parent; its own start is not counted. Run it with
the Python beside each MPI. A slow figure is no error; a run that fails is.
"""

import argparse
import os
import re
import statistics
import sys
import time
from collections.abc import Sequence

from harness import Goal, Row, environment, positive, print_environment, progress, table
from jobs import LAUNCHER, JobError, launcher, run

SPAWN, AT_ONCE = "Spawn", "spawn_groups"
CASES = {
    (SPAWN, 1, 1): 1.0,
    (SPAWN, 1, 4): 1.0,
    (SPAWN, 1, 16): 1.0,
    (SPAWN, 1, 32): 1.0,
    (SPAWN, 32, 1): 0.25,
    (AT_ONCE, 32, 1): 0.25,
}
"""Our way, groups and children of each: at most so many times the time of MPI's Spawn."""
QUICK = {(SPAWN, 1, 1): 1.0, (SPAWN, 1, 4): 1.0, (SPAWN, 4, 1): None, (AT_ONCE, 4, 1): None}
LIMIT = 120.0  # s for one run
CHILD = (
    "from mpi4py import MPI; parent = MPI.Comm.Get_parent();"
    "parent.send(MPI.COMM_WORLD.Get_rank(), 0); parent.recv(); parent.Disconnect()"
)
CHILD_OF_OURS = (
    "from mpi4py import MPI; import acp_mpi as acp; acp.init();"
    "acp.send(MPI.COMM_WORLD.Get_rank(), 0); acp.recv(source=0); acp.finalize()"
)


def parent(groups: int, children: int) -> None:
    """Spawn the groups one after the other, hear of all children, print the seconds."""
    from mpi4py import MPI

    began = time.perf_counter()
    comms = [MPI.COMM_SELF.Spawn(sys.executable, ["-c", CHILD], children) for _ in range(groups)]
    for comm in comms:
        heard = sorted(comm.recv() for _ in range(children))
        if heard != list(range(children)):
            raise RuntimeError(f"the children of a group said that they are {heard}")
    print(f"seconds {time.perf_counter() - began:.6f}", flush=True)
    for comm in comms:
        for child in range(children):
            comm.send("done", child)
        comm.Disconnect()


def parent_of_all(groups: int, children: int) -> None:
    """Start the groups by one call, hear of all children, print the seconds."""
    import acp_mpi as acp

    with acp.init():
        began = time.perf_counter()
        command = [sys.executable, "-P", "-c", CHILD_OF_OURS]
        started = acp.spawn_groups([(command, children)] * groups)
        for group in started:
            heard = sorted(acp.recv(source=rank) for rank in group.ranks)
            if heard != list(range(children)):
                raise RuntimeError(f"the children of a group said that they are {heard}")
        print(f"seconds {time.perf_counter() - began:.6f}", flush=True)
        for group in started:
            for rank in group.ranks:
                acp.send("done", rank)


PARENTS = {SPAWN: parent, AT_ONCE: parent_of_all}


def once(way: str, groups: int, children: int, by_us: bool) -> float:
    """Return the seconds of one run; JobError if it did not come to its end."""
    command = [launcher(), "-n", "1", sys.executable, __file__, "--parent"]
    env = os.environ | LAUNCHER | {"ACP_SPAWN": str(int(by_us and way == SPAWN))}
    way = way if by_us else SPAWN
    output, status = run([*command, way, str(groups), str(children)], env, LIMIT)
    said = re.search(r"^seconds ([\d.]+)$", output, re.MULTILINE)
    if status or not said:
        tail = "\n".join(output.splitlines()[-25:])
        side = "ours" if by_us else "MPI's"
        raise JobError(f"{groups} x {children} by {side} ({way}): exit status {status}\n{tail}")
    return float(said[1])


def compare(way: str, groups: int, children: int, rounds: int, goal: Goal) -> Row:
    """Return the medians of both sides, which begin in turn."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds):
        progress(f"{way}, {groups} x {children}: round {number + 1} of {rounds}")
        for by_us in (False, True) if number % 2 == 0 else (True, False):
            times[by_us].append(once(way, groups, children, by_us))
    theirs, ours = map(statistics.median, times.values())
    what = f"{groups} group{'s' * (groups > 1)} of {children}, {way} to the last first message"
    return Row(what, "s", ours, "Spawn of MPI", theirs, goal)


def main(argv: Sequence[str]) -> int:
    """Measure and print; return the exit status: 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="default: 3")
    parser.add_argument("--quick", action="store_true", help="few children, one round")
    parser.add_argument("--parent", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.parent:
        way, *numbers = options.parent
        PARENTS[way](*map(int, numbers))
        return 0
    rounds = 1 if options.quick else options.rounds
    rows, failures = [], 0
    for case, times in (QUICK if options.quick else CASES).items():
        try:
            rows.append(compare(*case, rounds, Goal(times=times)))
        except JobError as reason:
            failures += 1
            progress(f"FAILED {reason}")
    print_environment(environment())
    print(table(rows))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
