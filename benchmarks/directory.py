"""Measure what the table of ranks takes: once per node, and of each process.

    python benchmarks/directory.py [--ranks 100000 ...] [--processes 4]

A few processes under mpiexec join a job in which all other ranks are simulated: one group of rows
that say that they are on other nodes of 64. Memory is what the system counts (smaps, and the blocks
of the memory file) after `init` and a look at the whole job. The first line, a job without
simulated ranks, is what the others compare with. The goal is 64 bytes a rank, once.
"""

import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import Goal, Row, environment, positive, print_environment, progress, table
from jobs import LAUNCHER, TIMEOUT, launcher

from acp_mpi.job.rendezvous import connector, secret
from acp_mpi.job.rendezvous.server import Server

ROW = 64
NODE = 64
PAGES = 5000  # ranks whose rows are many pages: with fewer it is the last page that counts
HEADINGS = (
    "ranks", "tables", "bytes in all", "a rank", "private before init", "after, first rank",
    "after, others", "page tables", "a copy would be", "init",
)  # fmt: skip


def _memory() -> dict[str, int]:
    """Return the bytes in mappings of this process's own, and of its page tables."""
    private, own = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if mapping := re.match(r"[0-9a-f]+-[0-9a-f]+ ...(.)", line):
            own = mapping[1] == "p"  # a shared one counts as private where nobody else has read it
        elif own and line.startswith("Private_"):
            private += int(line.split()[1]) << 10
    tables = re.findall(r"VmPTE:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return {"private": private, "page tables": int(tables[0]) << 10}


def _tables() -> dict[str, int]:
    """Return {inode: bytes in memory} of the tables of ranks that this process has open."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if os.path.exists(path) and "memfd:acp_mpi.ranks" in os.readlink(path):
            state = os.stat(path)
            found[str(state.st_ino)] = state.st_blocks * 512
    return found


def _take_part(result: Path) -> None:
    """Be one of the real processes."""
    from mpi4py import MPI

    import acp_mpi as acp
    from acp_mpi.engine import _engine

    comm = MPI.COMM_WORLD
    comm.Dup().Free()  # MPI has made its connections
    before = _memory()
    comm.Barrier()
    start = time.perf_counter()
    acp.init(comm, heap_size=1 << 24)
    seconds = time.perf_counter() - start
    right = (acp.rank() + 1) % comm.size
    acp.put(acp.query_starter_ga(right), b"x")
    acp.barrier(acp.group().ranks)
    if sum(group.size for group in acp.groups()) != acp.procs():
        raise AssertionError("the groups do not hold all ranks")
    seen = {"before": before, "after": _memory(), "tables": _tables(), "seconds": seconds}
    everyone = comm.gather(seen | {"procs": acp.procs()})
    if everyone is not None:
        result.write_text(json.dumps(everyone))
    comm.Barrier()
    _engine.close()  # the simulated ranks will not come to finalize


def _simulated(count: int) -> list[tuple[int, bytes]]:
    from acp_mpi.engine import _engine

    nonces = struct.unpack(f"<{count}Q", os.urandom(8 * count))
    return [
        (rank, struct.pack("<QQ22xB", nonce, 1 + rank // NODE, _engine.LAYOUT).ljust(ROW, b"\0"))
        for rank, nonce in enumerate(nonces)
    ]


def _run(processes: int, simulated: int, folder: Path) -> list[dict[str, Any]]:
    """Run one job and return what its processes have seen."""
    result, path = folder / f"{simulated}.json", folder / f"{simulated}.secret"
    groups = {"main": processes} | ({"simulated": simulated} if simulated else {})
    key = secret.create(path)
    command = [launcher(), "-n", str(processes), sys.executable, __file__, "--result", str(result)]
    with Server(key, groups, timeout=TIMEOUT) as server:
        place = {
            "ACP_RENDEZVOUS": server.address,
            "ACP_SECRET_FILE": str(path),
            "ACP_JOIN_TIMEOUT": str(TIMEOUT),
            "ACP_WINDOW_SIZE": "0",  # it could not be freed: nobody comes to finalize
        }
        arguments = (server.address, key, "simulated", simulated, True, _simulated(simulated))
        other = threading.Thread(target=connector.join, args=(*arguments, TIMEOUT), daemon=True)
        if simulated:
            other.start()
        subprocess.run(
            command, env=os.environ | LAUNCHER | place, check=True, timeout=TIMEOUT, text=True
        )
    seen: list[dict[str, Any]] = json.loads(result.read_text())
    return seen


def _all_tables(seen: list[dict[str, Any]]) -> dict[str, int]:
    return {inode: size for one in seen for inode, size in one["tables"].items()}


def _line(seen: list[dict[str, Any]]) -> list[str]:
    tables = _all_tables(seen)
    procs, total = seen[0]["procs"], sum(tables.values())
    others = seen[1:] or seen
    return [
        f"{procs:,}",
        str(len(tables)),
        f"{total:,}",
        f"{total / procs:.2f}",
        f"{max(one['before']['private'] for one in seen) >> 10:,} KiB",
        f"{seen[0]['after']['private'] >> 10:,} KiB",
        f"{max(one['after']['private'] for one in others) >> 10:,} KiB",
        f"{max(one['after']['page tables'] for one in seen) >> 10:,} KiB",
        f"{ROW * procs >> 10:,} KiB",
        f"{max(one['seconds'] for one in seen):.2f} s",
    ]


def main(argv: Sequence[str]) -> int:
    """Run the jobs and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="One line for each number of ranks; 'private' is of the process with most of it.",
    )
    parser.add_argument(
        "--ranks", type=positive, nargs="+", default=[10_000, 100_000], metavar="N",
        help="simulated ranks, one job for each number (default: 10000 100000)",
    )  # fmt: skip
    parser.add_argument(
        "--processes", type=positive, default=4, metavar="N",
        help="real ones (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.result:
        _take_part(options.result)
        return 0
    lines, rows = [list(HEADINGS)], []
    with tempfile.TemporaryDirectory(prefix="acp-bench-") as folder:
        for simulated in (0, *options.ranks):
            progress(f"{simulated:,} simulated ranks")
            seen = _run(options.processes, simulated, Path(folder))
            lines.append(_line(seen))
            if simulated:
                procs, total = seen[0]["procs"], sum(_all_tables(seen).values())
                rows.append(
                    Row(f"table of {procs:,} ranks, a rank", "B", total / procs,
                        goal=Goal(at_most=ROW if procs > PAGES else None))
                )  # fmt: skip
    print_environment(environment())
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print(f"\n{table(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
