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
PATIENCE = 10.0  # seconds after which the loss counts as not noticed
SCENES = {
    "a storm of puts": "puts",
    "sync": "sync",
    "wait_until": "word",
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
            acp.wait_until(acp.query_starter_ga(me) + 8, "==", 1, timeout=PATIENCE)
    except acp.PeerLostError:
        print(time.monotonic_ns(), flush=True)
    except TimeoutError:
        print("never", flush=True)
    os._exit(0)


def _start(scene: str, environment: dict[str, str]) -> list["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "rows.loss", scene]
    folder = Path(__file__).parents[1]
    return [
        subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | environment | {"ACP_GROUP_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]


def _kill_one(ranks: list["subprocess.Popen[str]"]) -> float:
    """Kill the victim and return the seconds until the last survivor knew."""
    for rank in ranks:
        assert rank.stdout is not None
        if rank.stdout.readline() != "ready\n":
            raise RuntimeError("a rank did not start")
    time.sleep(0.2)
    killed = time.monotonic_ns()
    ranks[VICTIM].send_signal(signal.SIGKILL)
    last = 0.0
    for number, rank in enumerate(ranks):
        if number == VICTIM:
            continue
        try:
            answer = rank.communicate(timeout=2 * PATIENCE)[0].strip()
        except subprocess.TimeoutExpired:
            answer = "never"
        if not answer:
            raise RuntimeError("a survivor ended without a word")
        seconds = PATIENCE if answer == "never" else (int(answer) - killed) * 1e-9
        last = max(last, seconds)
    return last


def _notice(scene: str, environment: dict[str, str]) -> float:
    """Run one job of which a rank is killed."""
    from acp_mpi.job.rendezvous import secret
    from acp_mpi.job.rendezvous import server as rendezvous

    with tempfile.TemporaryDirectory(prefix="acp-bench-") as folder:
        key = Path(folder, "secret")
        with rendezvous.Server(secret.create(key), {"bench": RANKS}) as server:
            group = {
                "ACP_MPI": "0",
                "ACP_RENDEZVOUS": server.address,
                "ACP_SECRET_FILE": str(key),
                "ACP_GROUP": "bench",
                "ACP_GROUP_SIZE": str(RANKS),
            }
            ranks = _start(scene, environment | group)
            try:
                return _kill_one(ranks)
            finally:
                for rank in ranks:
                    rank.kill()
                    rank.communicate()


def measure(quick: bool) -> list[Row]:
    """Measure as the one process of this job."""
    rows = []
    for road, environment in [("load/store", {}), ("link", {"ACP_PATH": "link"})]:
        for what, scene in SCENES.items():
            seconds: list[float] = []
            while len(seconds) < (3 if quick else 5) and PATIENCE not in seconds:
                seconds.append(_notice(scene, environment))
            median = PATIENCE if PATIENCE in seconds else statistics.median(seconds)
            note = f"the last of {RANKS - 1} survivors; slowest run {1e3 * max(seconds):.2f} ms"
            if PATIENCE in seconds:
                note = f"not noticed within {PATIENCE:g} s"
            name = f"PeerLostError in {what}, {road}"
            rows.append(Row(name, "ms", 1e3 * median, goal=Goal(at_most=500), note=note))
    return rows


if __name__ == "__main__":
    _rank(sys.argv[1])
