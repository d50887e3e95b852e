"""How the master has jobs done: rounds, pulled by the groups, until each job has its result."""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import acp_mpi as acp

from . import orders
from .cast import Cast
from .fmo import Save
from .jobs import NAMES, ROW_BYTES, Failed, Phase, Row, unpack_rows
from .orders import Lost, Order
from .places import Places

Watch = Callable[[int, int], None]  # called with (jobs done, jobs in all) of a phase


class Scheduler:
    """The master's side of the jobs. `watch` is told of progress."""

    def __init__(self, cast: Cast, watch: Watch) -> None:
        self._cast = cast
        self._watch = watch
        self._living = list(range(len(cast.groups)))
        self._serial = 0
        self._seen = 0
        self.phases: list[Phase] = []
        self.on_phase: Callable[[str], None] = lambda name: None

    @property
    def lost_groups(self) -> list[int]:
        """The groups that have died."""
        return [g for g in range(len(self._cast.groups)) if g not in self._living]

    def sizes(self) -> Any:
        """Return what the first leader that has looked says of the fragments' sizes."""
        while (sizes := orders.reported_sizes()) is None:
            self._wait()
        return sizes

    def begin(self, places: Places) -> None:
        """Tell the groups where the data is; return when they know."""
        where = orders.keep(places, self._cast.servers[0])
        self._give(Order(orders.BEGIN, 0, 0, 0, 0, 0, *where))
        while self._busy():
            self._wait()

    def run(
        self,
        kind: int,
        sweep: int,
        jobs: int,
        sequence: Sequence[int],
        *,
        pairs: Sequence[tuple[int, int]] = (),
        save: Save | None = None,
    ) -> list[Row]:
        """Have the jobs of `sequence` done, in that order, and return the rows of all `jobs`.

        `sweep` is that whose densities are read. What a group leaves undone that dies is given
        out again. `save` is called with a function that returns the rows so far. Lost if a data
        server or all groups have died, Failed if a job has no solution.
        """
        self.on_phase(NAMES[kind])
        server = self._cast.servers[0]
        rows = acp.malloc(max(jobs, 1) * ROW_BYTES, rank=server)
        acp.put(rows, bytes(jobs * ROW_BYTES))
        table = acp.malloc(16 * max(len(pairs), 1), rank=server)
        acp.put(table, b"".join(_numbers(pair) for pair in pairs))
        begin, done, left = time.time(), list[Row](), list(sequence)
        while left:
            order = Order(kind, sweep, len(left), 0, 0, rows, table, len(pairs))
            self._round(order, left, jobs, save)
            done = self._rows(rows, jobs)
            failed = [job for job in sequence if done[job].stamp < 0]
            if failed:
                raise Failed(kind, failed[0])
            left = [job for job in left if not done[job].stamp]
        finished = tuple(done[job] for job in sequence)
        self.phases.append(Phase(NAMES[kind], begin, time.time(), finished))
        self._release(rows, table)
        return done or [Row()] * jobs

    def stop(self) -> None:
        """Send everybody home who lives."""
        order = Order(orders.STOP, 0, 0, 0, 0, 0, 0, 0)
        with contextlib.suppress(Lost):
            self._give(order)
        for server in self._cast.servers:
            if server != acp.rank():
                with contextlib.suppress(acp.PeerLostError):
                    orders.give(order, server, 1)

    def server_seconds(self) -> list[float]:
        """Return the processor time that the data servers took, after `stop`."""
        places = [
            len(self._cast.groups) + number
            for number, server in enumerate(self._cast.servers)
            if server != acp.rank()
        ]
        while not all(orders.reported(place) for place in places):
            self._wait()
        return [orders.reported(place) / 1e6 for place in places]

    def _round(
        self,
        order: Order,
        jobs: Sequence[int],
        total: int,
        save: Save | None,
    ) -> None:
        """Give jobs out once, and wait until every living group has nothing left to pull."""
        counter = acp.Counter()
        sequence = acp.malloc(8 * len(jobs))
        acp.put(sequence, _numbers(jobs))
        self._give(order._replace(counter=counter.ga, sequence=sequence))
        first = self._seen
        while busy := self._busy():
            self._wait()
            idle = len(self._living) - len(busy)
            done = min(max(self._seen - first - idle, 0), len(jobs))
            self._watch(total - len(jobs) + done, total)
            if save is not None:
                save(lambda: self._rows(order.rows, total))
        self._release(sequence, counter=counter)

    def _busy(self) -> list[int]:
        """Return the groups that have not reported the end of the last round."""
        return [group for group in self._living if orders.reported(group) < self._serial]

    def _wait(self) -> None:
        """Sleep until something happens; losses that can be borne are part of that."""
        try:
            self._seen = orders.next_event(self._seen)
        except acp.PeerLostError:
            self._accept_losses()

    def _release(self, *places: int, counter: acp.Counter | None = None) -> None:
        """Give memory back that no group uses any more.

        After a loss none: a leader that does not know yet that its member has died may still write.
        """
        if self.lost_groups:
            return
        for place in places:
            acp.free(place)
        if counter is not None:
            counter.destroy()

    def _rows(self, ga: int, count: int) -> list[Row]:
        return unpack_rows(acp.get(ga, bytearray(count * ROW_BYTES)))

    def _give(self, order: Order) -> None:
        self._serial += 1
        for group in list(self._living):
            try:
                orders.give(order, self._cast.groups[group][0], self._serial)
            except acp.PeerLostError:
                self._accept_losses()

    def _accept_losses(self) -> None:
        """Go on without the groups that have lost a process; Lost if that is not possible."""
        living = orders.check_living(self._cast.servers)
        self._living = [
            group
            for group in self._living
            if all(rank in living for rank in self._cast.groups[group])
        ]
        if not self._living:
            raise Lost("all groups of workers have died")


def _numbers(values: Sequence[int]) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)
