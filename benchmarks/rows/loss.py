"""How soon the others notice that a rank was killed: ranks without MPI, started here.

This module is also the program of such a rank: `python -m rows.loss SCENE`.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from harness import Goal, Row

import acp_mpi as acp

RANKS, VICTIM = 3, 1
SCENES = {
    "a storm of puts": "puts",
    "sync": "sync",
    "wait_until a word that nobody writes": "word",
}


def _rank(scene: str) -> None:
    """Be one rank: do it until the loss is noticed, then print when that was."""
    acp.init()
    me, word = acp.rank(), bytearray(8)
    victims = acp.query_starter_ga(VICTIM)
    acp.fetch_add8(victims, 1)
    acp.sync()
    print("ready", flush=True)
    try:
        if me == VICTIM:
            time.sleep(60)
        elif scene == "puts":
            for _ in count():
                acp.put(victims + 8, word)
        elif scene == "sync":
            acp.sync()
        else:
            acp.wait_until(acp.query_starter_ga(me) + 8, "==", 1)
    except acp.PeerLostError:
        print(time.monotonic_ns(), flush=True)
    os._exit(0)


def _notice(scene: str, environment: dict[str, str]) -> float:
    """Run one job, kill the victim and return the seconds until the last survivor knew."""
    from acp_mpi.spawn import rendezvous, secret

    with tempfile.TemporaryDirectory(prefix="acp-bench-") as folder:
        key = Path(folder, "secret")
        with rendezvous.Server(secret.create(key), {"bench": RANKS}) as server:
            common = (
                os.environ
                | environment
                | {
                    "ACP_MPI": "0",
                    "ACP_RENDEZVOUS": server.address,
                    "ACP_SECRET_FILE": str(key),
                    "ACP_GROUP": "bench",
                    "ACP_GROUP_SIZE": str(RANKS),
                }
            )
            ranks = [
                subprocess.Popen(
                    [sys.executable, "-m", "rows.loss", scene],
                    text=True,
                    cwd=Path(__file__).parents[1],
                    env=common | {"ACP_GROUP_RANK": str(rank)},
                    stdout=subprocess.PIPE,
                )
                for rank in range(RANKS)
            ]
            try:
                for rank in ranks:
                    assert rank.stdout is not None
                    if rank.stdout.readline() != "ready\n":
                        raise RuntimeError("a rank did not start")
                time.sleep(0.2)
                killed = time.monotonic_ns()
                ranks[VICTIM].send_signal(signal.SIGKILL)
                times = [
                    int(rank.communicate(timeout=60)[0] or 0)
                    for number, rank in enumerate(ranks)
                    if number != VICTIM
                ]
            finally:
                for rank in ranks:
                    rank.kill()
                    rank.wait()
    if not all(times):
        raise RuntimeError(f"a survivor of {scene!r} noticed nothing")
    return (max(times) - killed) * 1e-9


def measure(quick: bool) -> list[Row]:
    """Measure as the one process of this job."""
    rows = []
    for road, environment in [("load/store", {}), ("link", {"ACP_PATH": "link"})]:
        for what, scene in SCENES.items():
            seconds = [_notice(scene, environment) for _ in range(3 if quick else 5)]
            rows.append(
                Row(
                    f"PeerLostError in {what}, {road}",
                    "ms",
                    1e3 * statistics.median(seconds),
                    goal=Goal(at_most=500),
                    note=f"the last survivor; slowest run {1e3 * max(seconds):.2f} ms",
                )
            )
    return rows


if __name__ == "__main__":
    _rank(sys.argv[1])
