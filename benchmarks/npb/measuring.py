"""Run a kernel on all transports in turn, and account for what it took."""

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from harness import progress
from mpi4py import MPI

from npb.by_acp import ByAcp
from npb.by_mpi import ByMpi
from npb.by_select import BySelect
from npb.syscalls import SystemCalls
from npb.transport import Transport

ACP, SELECT, MPI_TCP = 0, 1, 2  # places in `transports`

Kernel = Callable[[Transport], tuple[float, int]]
"""Returns the seconds that count here, and how many checks have passed here."""


@dataclass(slots=True)
class Account:
    """What each run of a kernel on a transport took."""

    name: str
    seconds: list[float] = field(default_factory=list)  # of the slowest rank
    processor: list[float] = field(default_factory=list)  # of all ranks, in seconds
    switches: list[float] = field(default_factory=list)  # of all ranks, wanted or not
    calls: list[float] = field(default_factory=list)  # of the system, by all ranks
    not_counted: str = ""  # why there are no calls

    def median(self, what: str) -> float:
        """Return the median over the runs."""
        return float(statistics.median(getattr(self, what)))


def transports(comm: MPI.Intracomm, address: str) -> list[Transport]:
    """Connect the ranks in three ways, by the interface of that address. Collective."""
    return [ByAcp(comm), BySelect(comm, address=address), ByMpi(comm)]


def _used() -> tuple[float, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, float(usage.ru_nvcsw + usage.ru_nivcsw)


def run_all(
    comm: MPI.Intracomm,
    kernel: Kernel,
    checks: int,
    rounds: int,
    name: str,
    address: str = "127.0.0.1",
) -> list[Account]:
    """Run the kernel on all transports, in turn, so often; all checks must pass. Collective."""
    calls = SystemCalls()  # before the threads that it is to follow
    ways = transports(comm, address)
    not_counted = next(filter(None, comm.allgather(calls.why_not)), "")
    accounts = [Account(way.name, not_counted=not_counted) for way in ways]
    for number in range(rounds):
        for turn in range(len(ways)):
            side = (number + turn) % len(ways)
            _rest(comm)
            before, made = _used(), calls.so_far()
            seconds, passed = kernel(ways[side])
            made = calls.so_far() - made
            processor, switches = (b - a for a, b in zip(before, _used(), strict=True))
            _rest(comm)
            every = comm.allgather((seconds, passed, processor, switches, made))
            if (total := sum(each[1] for each in every)) != checks:
                raise RuntimeError(f"{name} by {ways[side].name}: {total} of {checks} checks pass")
            accounts[side].seconds.append(max(each[0] for each in every))
            accounts[side].processor.append(sum(each[2] for each in every))
            accounts[side].switches.append(sum(each[3] for each in every))
            if not not_counted:
                accounts[side].calls.append(sum(each[4] for each in every))
        if comm.rank == 0:
            progress(f"{name}: round {number + 1} of {rounds}")
    for way in ways:
        way.close()
    calls.close()
    return accounts


def _rest(comm: MPI.Intracomm) -> None:
    """Meet without spinning: a rank that is early must not take the cores of the others."""
    meeting = comm.Ibarrier()
    while not meeting.Test():
        time.sleep(0.0005)
