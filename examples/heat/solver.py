"""Solve the heat equation on a rod by ranks of MPI, for an observer that is another program.

Each rank has some cells, and gets the cells beside them from its neighbours by MPI. Every few steps
MPI gathers all cells straight in a slot of the channel to the observer. The channel has four slots:
a solver that is faster than its observer waits, asleep. The observer steers by a channel back: it
sends other temperatures of the rod's ends, and closes the channel when it has seen enough.

    cd examples/heat; macprun job.toml
"""

import argparse
import sys

import numpy as np
from mpi4py import MPI
from rod import RATE, SLOTS, frame, pair, places

import acp_mpi as acp


class Part:
    """The cells of this rank, and on either side the neighbour's next one or an end of the rod."""

    def __init__(self, comm: MPI.Intracomm, cells: int) -> None:
        bounds = [cells * rank // comm.size for rank in range(comm.size + 1)]
        mine = slice(bounds[comm.rank], bounds[comm.rank + 1])
        self.counts = np.diff(bounds)
        self.inflow = 0.0  # heat that has come through those ends that this rank has
        self._comm = comm
        self._all = np.pad(np.sin(np.pi * places(cells)[mine]), 1)
        self.inside = self._all[1:-1]
        self._left = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
        self._right = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL

    def step(self, ends: np.ndarray) -> None:
        """Advance by one step while the rod's ends have these temperatures. Collective."""
        u = self._all
        self._comm.Sendrecv(u[1:2], self._left, recvbuf=u[-1:], source=self._right)
        self._comm.Sendrecv(u[-2:-1], self._right, recvbuf=u[:1], source=self._left)
        if self._left == MPI.PROC_NULL:
            u[0] = ends[0]
        if self._right == MPI.PROC_NULL:
            u[-1] = ends[1]
        flow = RATE * np.diff(u)  # to the left, between neighbours
        self.inside += np.diff(flow)
        if self._left == MPI.PROC_NULL:
            self.inflow -= flow[0]
        if self._right == MPI.PROC_NULL:
            self.inflow += flow[-1]

    def heat(self) -> np.ndarray:
        """Return the heat in the whole rod, and what has come through its ends. Collective."""
        mine = np.array([self.inside.sum(), self.inflow]) / (self.counts.sum() + 1)
        return np.asarray(self._comm.allreduce(mine))


def show(comm: MPI.Intracomm, part: Part, step: int, ends: np.ndarray,
         frames: acp.Channel | None) -> None:  # fmt: skip
    """Gather the cells of all ranks in the next slot of the channel. Collective."""
    if frames is None:
        comm.Gatherv(part.inside, None)
        return
    with frames.reserve() as slot:  # one frame; waits while all slots are full
        slot["step"], slot["ends"] = step, ends
        comm.Gatherv(part.inside, [slot["inside"][0], part.counts])


def steered(comm: MPI.Intracomm, ends: np.ndarray, orders: acp.Channel | None) -> np.ndarray | None:
    """Return the ends as the observer last wanted them; None: it has seen enough. Collective."""
    wanted: np.ndarray | None = ends
    if orders is not None:
        try:
            while orders.poll():
                wanted = orders.recv()
        except acp.EndOfChannel:
            wanted = None
    wanted = comm.bcast(wanted)
    return wanted


def solve(comm: MPI.Intracomm, cells: int, every: int, ranks: tuple[int, int]) -> bool:
    """Solve until the observer has seen enough; return whether no heat was lost. Collective."""
    frames = orders = None
    if acp.rank() == ranks[0]:
        acp.publish("cells", cells)
        kind = frame(cells)
        frames = acp.Channel(*ranks, size=kind.itemsize, slots=SLOTS, dtype=kind)
        orders = acp.Channel(*reversed(ranks), size=16, dtype="f8")
    part, step = Part(comm, cells), 0
    ends: np.ndarray | None = np.zeros(2)
    before, _ = part.heat()
    while ends is not None:
        show(comm, part, step, ends, frames)
        for _ in range(every):
            part.step(ends)
        step += every
        ends = steered(comm, ends, orders)
    if frames is not None:
        frames.close()
    now, inflow = part.heat()
    kept = bool(abs(now - before - inflow) < 1e-9)
    if comm.rank == 0:
        print(f"{step} steps: heat {now:.6f}, before {before:.6f}, through the ends {inflow:.6f}")
        if not kept:
            print("solver: heat was lost, or came from nowhere", file=sys.stderr)
    return kept


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=24, help="of the rod (default 24)")
    parser.add_argument("--every", type=int, default=20, help="steps a frame (default 20)")
    arguments = parser.parse_args()
    if arguments.cells < 2 or arguments.every < 1:
        parser.error("--cells must be at least 2, and --every at least 1")
    return arguments


def main() -> int:
    """Run the solver; return the exit code."""
    with acp.init():
        arguments = parse_arguments()
        ranks, group = pair(), acp.group()
        if ranks is None or group.name != "solver" or arguments.cells < group.size:
            print("solver: a group of that name with MPI, no more ranks than --cells, and a group "
                  "`observer`; see job.toml", file=sys.stderr)  # fmt: skip
            return 2
        return 0 if solve(group.comm, arguments.cells, arguments.every, ranks) else 1


if __name__ == "__main__":
    sys.exit(main())
