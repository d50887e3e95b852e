"""`python -m acp_mpi info --measure`: the machines of the nodes, and times between them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from acp_mpi.comm.collectives import calls
from acp_mpi.engine import _engine
from acp_mpi.job import runtime
from acp_mpi.tools import machine, pair_times, table

_ONCE = {"ACP_RENDEZVOUS", "ACP_MULTIRUN", "ACP_GROUP"}  # name a place in one job
_SHOWN = 3  # names of nodes that are alike


class Measurements:
    """The times of pairs of the nodes' ranks, by every way. All methods are collective."""

    def __init__(self, nodes: Mapping[str, list[int]]) -> None:
        self._nodes = nodes
        self._names = {rank: name for name, ranks in nodes.items() for rank in ranks}
        self._machines = calls.allgather(machine.facts())
        self._pairs = pair_times.pairs(nodes.values())
        self._complete = len(self._names) == _engine.procs()
        self._by_acp = pair_times.by_acp(self._pairs)
        self._by_link: pair_times.Found = {}
        self._by_mpi, why_not = pair_times.by_mpi(self._pairs)
        self._left_out = [f"MPI: {why_not}"] if why_not else []
        if not self._pairs:
            self._left_out = ["times: there is one rank; start two on each node"]

    def by_link(self, given: set[str]) -> None:
        """Measure by link, in a job after the first one, the pairs whose road is another.

        `given` are the variables that were set before that began.
        """
        pairs = [pair for pair in self._pairs if self._by_acp[pair][0] != "link"]
        if not pairs:
            return
        reason = "" if self._complete else "ranks have died"
        if given & _ONCE:
            reason = f"{', '.join(sorted(given & _ONCE))} named a place in this one"
        if reason:
            self._left_out.append(
                f"links: no second job can begin where {reason}; start the same with ACP_PATH=link"
            )
            return
        before = os.environ.get("ACP_PATH")
        os.environ["ACP_PATH"] = "link"
        with runtime.init():
            self._by_link = pair_times.by_acp(pairs)
        del os.environ["ACP_PATH"]
        if before is not None:
            os.environ["ACP_PATH"] = before

    def show(self) -> None:
        """Print all."""
        alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for name, ranks in self._nodes.items():
            alike.setdefault(tuple(self._machines[ranks[0]] or ()), []).append(name)
        for facts, names in alike.items():
            more = len(names) - _SHOWN
            print(f"\nmachine of {', '.join(names[:_SHOWN])}{f' and {more} more' * (more > 0)}")
            print(table.text(facts))
        ways = self._by_acp, self._by_link, self._by_mpi
        rows = [row for way in ways for row in pair_times.rows(way, self._names)]
        print("\ntimes in µs, medians; pairs whose times are within a factor of 2 are one line")
        if rows:
            print(table.text([["pair", "by", *pair_times.COLUMNS], *rows]))
        for reason in self._left_out:
            print(f"  not measured: {reason}")
        sys.stdout.flush()
