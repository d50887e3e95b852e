"""Measure how long groups take to join, beside what their processes take without joining.

    python benchmarks/joining.py [--groups 10 100 1000] [--processes 200] [--rounds 3]

Simulated groups of one rank each all come at once, driven by one process beside the rendezvous,
which is one of its own: connection, handshake, announcement, and the table, whose code is
looked at. Then real processes without MPI, from the start of the first until the last has the
table, and the same processes that end where they would join, in turn. Medians of seconds, and of
the simulated groups the processor time, too, which others on the machine do not disturb as much.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness import Goal, Row, environment, positive, print_environment, progress, table

from acp_mpi.job.rendezvous import handshake, secret
from acp_mpi.job.rendezvous.address import parse_address
from acp_mpi.job.rendezvous.announcement import Announcement
from acp_mpi.job.rendezvous.messages import Kind
from acp_mpi.job.rendezvous.secret import job_id
from acp_mpi.job.rendezvous.server import Server
from acp_mpi.job.rendezvous.visitor import Visitor

if TYPE_CHECKING:
    from acp_mpi.job.rendezvous.visitor import Talk

TIMEOUT = 120.0
MEMBER = "import acp_mpi as acp; acp.init(); print(acp.procs(), flush=True); acp.finalize()"
STRANGER = "import acp_mpi as acp; acp.init; print(1, flush=True)"


def _talk(visitor: Visitor, key: bytes, name: str, tables: list[int]) -> Talk:
    none, role = handshake.NO_SLOT, handshake.Role.MEMBER
    yield from visitor.prove(handshake.calling(key, job_id(key), role, none, none, 0))
    member = Announcement(name, 1, False, ((0, bytes(64)),), TIMEOUT, "simulated")
    visitor.tell(Kind.ANNOUNCE, member.pack())
    kind, table = yield from visitor.hear()
    assert kind == Kind.TABLE, table
    tables.append(len(table))


def simulate(groups: int, folder: Path) -> tuple[float, float, float]:
    """Return seconds until all have the table, and processor time of rendezvous and members."""
    path = folder / "secret"
    path.unlink(missing_ok=True)
    key, tables = secret.create(path), list[int]()
    macprun = [sys.executable, "-P", "-m", "acp_mpi.launch.macprun"]
    command = [*macprun, "serve", "--groups", str(groups)]
    with (
        subprocess.Popen(
            [*command, "--secret-file", str(path)], stdout=subprocess.PIPE, text=True
        ) as server,
        selectors.DefaultSelector() as selector,
    ):
        assert server.stdout is not None
        where = parse_address(server.stdout.readline().strip().removeprefix("ACP_RENDEZVOUS="))
        before = _processor_time(server.pid)
        began, own = time.perf_counter(), time.process_time()
        for number in range(groups):
            visitor = Visitor(socket.create_connection(where), "the rendezvous")
            visitor.begin(_talk(visitor, key, f"group-{number:04}", tables))
            selector.register(visitor, selectors.EVENT_READ)
            _turn(selector, 0.0)
        while selector.get_map():
            _turn(selector, TIMEOUT)
        seconds, own = time.perf_counter() - began, time.process_time() - own
        _, status, served = os.wait4(server.pid, 0)
        server.returncode = os.waitstatus_to_exitcode(status)
        if server.returncode or len(tables) != groups:
            raise RuntimeError(
                f"{len(tables)} of {groups} groups got the table; the rendezvous ended with "
                f"status {server.returncode}"
            )
        return seconds, served.ru_utime + served.ru_stime - before, own


def _turn(selector: selectors.BaseSelector, timeout: float) -> None:
    for chosen, _ in selector.select(timeout):
        assert isinstance(chosen.fileobj, Visitor)
        if not chosen.fileobj.turn():
            selector.unregister(chosen.fileobj)
            chosen.fileobj.close()


def _processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processes(count: int, program: str, expected: int, folder: Path) -> float:
    """Return seconds from the start of the first process until the last has said `expected`."""
    path = folder / "secret"
    path.unlink(missing_ok=True)
    with Server(secret.create(path), {"main": count}, timeout=TIMEOUT) as server:
        place = {
            "ACP_MPI": "0",
            "ACP_RENDEZVOUS": server.address,
            "ACP_SECRET_FILE": str(path),
            "ACP_GROUP_SIZE": str(count),
        }
        began = time.perf_counter()
        started = [
            subprocess.Popen(
                [sys.executable, "-P", "-c", program],
                env=os.environ | place | {"ACP_GROUP_RANK": str(rank)},
                stdout=subprocess.PIPE,
            )
            for rank in range(count)
        ]
        for process in started:
            assert process.stdout is not None
            if (said := process.stdout.readline()) != b"%d\n" % expected:
                raise RuntimeError(f"a process said {said!r}, not {expected}")
        seconds = time.perf_counter() - began
        for process in started:
            process.communicate()
            if process.returncode:
                raise RuntimeError(f"a process ended with status {process.returncode}")
        return seconds


def _rows(groups: Sequence[int], count: int, rounds: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="acp-bench-") as name:
        folder = Path(name)
        for number in groups:
            progress(f"{number} simulated groups")
            every = zip(*(simulate(number, folder) for _ in range(rounds)), strict=True)
            seconds, served, own = map(statistics.median, every)
            note = f"processor time: rendezvous {served:.2f} s, groups {own:.2f} s"
            goal = Goal(at_most=2) if number == 1000 else Goal()
            yield Row(f"{number} simulated groups join", "s", seconds, goal=goal, note=note)
        sides: dict[str, list[float]] = {MEMBER: [], STRANGER: []}
        for number in range(rounds):
            progress(f"{count} processes: round {number + 1} of {rounds}")
            for program, times in sides.items() if number % 2 == 0 else reversed(sides.items()):
                expected = count if program == MEMBER else 1
                times.append(processes(count, program, expected, folder))
        joined, started = map(statistics.median, sides.values())
        what = f"{count} processes without MPI, start to joined"
        yield Row(what, "s", joined, "started without joining", started)


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=positive, nargs="+", default=[10, 100, 1000], metavar="N")
    parser.add_argument("--processes", type=positive, default=200, metavar="N")
    parser.add_argument("--rounds", type=positive, default=3, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    options = parser.parse_args(argv)
    rows = list(_rows(options.groups, options.processes, options.rounds))
    print_environment(environment())
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps([row.as_dict() for row in rows], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
