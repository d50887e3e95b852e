"""Operations on another host beside those of UCX over TCP, as its own program measures them.

`ucx_perftest` (Debian: `ucx-utils`) runs in turn with ours, two processes for each round; without
it there are no rows. UCX protects nothing against damage, and less against members of the network.
"""

import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from harness import US, Effort, Row, progress

import acp_mpi as acp
from rows.cores import keep_apart

PROGRAM = "ucx_perftest"
PORT = 13377
LONG = 1 << 20  # UCX takes seconds for much longer ones
ROUNDS = 5
LIMIT = 30.0  # seconds of one round
LISTENS = "0A"  # the state of a socket in /proc/net/tcp

# Operation -> test, bytes, how many in a round, the column of its seconds for one.
TESTS = {
    "fetch_add8": ("ucp_fadd", 8, 2000, "50.0_percentile_lat"),
    "put 8 B": ("ucp_put_lat", 8, 2000, "50.0_percentile_lat"),
    f"put {LONG >> 20} MiB": ("ucp_put_bw", LONG, 200, "overall_lat"),
}


@contextlib.contextmanager
def _program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}
    command = [PROGRAM, "-p", str(PORT), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def _listens() -> bool:
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return any(row[1].endswith(f":{PORT:04X}") and row[3] == LISTENS for row in rows)


def _theirs(host: str, test: str, size: int, count: int, column: str) -> float:
    """Return UCX's seconds for one operation. On the caller; `_serve` is the other side."""
    counts = ["-s", str(size), "-n", str(count), "-w", str(count // 10), "-f", "-v"]
    acp.sync()
    with _program(host, "-t", test, *counts) as client:
        output, _ = client.communicate(timeout=LIMIT)
    acp.sync()
    names, values = (line.split(",") for line in output.split(maxsplit=1))
    return float(values[names.index(column)]) * US


def _serve() -> None:
    with _program() as server:
        end = time.monotonic() + LIMIT
        while not _listens() and server.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        acp.sync()
        acp.sync()


def _ours(call: Callable[[], object], count: int) -> float:
    """Return the median of calls in a row, as UCX's does of operations."""
    seconds = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    keep_apart(int(os.environ["ACP_GROUP_RANK"]), 2)
    rounds = ROUNDS if quick else Effort.of(quick).rounds
    rows: list[Row] = []
    with acp.init():
        if not all(acp.allgather(bool(shutil.which(PROGRAM)))):
            return rows
        mine, word, long = acp.zeros(LONG, np.uint8), np.ones(1, np.int64), np.ones(LONG, np.uint8)
        ga = acp.allgather(acp.query_ga(mine))[1]
        host = acp.bcast(socket.gethostbyname(socket.gethostname()), root=1)
        calls = [
            lambda: acp.fetch_add8(ga, 1),
            lambda: acp.put(ga, word),
            lambda: acp.put(ga, long),
        ]
        for call, (what, test) in zip(calls, TESTS.items(), strict=True):
            progress(f"peers: {what}")
            ours, theirs = [], []
            for _ in range(rounds):
                if acp.rank() == 1:
                    _serve()
                else:
                    theirs.append(_theirs(host, *test))
                    ours.append(_ours(call, test[2]))
                acp.sync()
            if acp.rank() == 0:
                times = [statistics.median(each) / US for each in (ours, theirs)]
                rows.append(Row(f"{what} to another host", "µs", times[0], "UCX", times[1]))
    return rows
