"""One small operation at a time on another host, beside a bare ping-pong of the same bytes."""

import os

import numpy as np
from harness import US, Body, Effort, Goal, Row, Sample, progress, singles

import acp_mpi as acp
from rows import bare_tcp
from rows.activity import Activity, Target
from rows.cores import ASLEEP, all_cores, busy_cores, keep_apart
from rows.loops import fetch_add8, get, put

HEAD, WORD, SUM = 64, 8, 4  # bytes of a frame
COMPUTING = (Activity.PYTHON, Activity.NUMPY, Activity.SLEEP)
IN_A_ROW = 20
WITHOUT_CODES = ", without codes" * (os.environ.get("ACP_LINKS") == "crc")
# A look and a glance, of which the engine chooses (decision 18); the better ping-pong counts.
PATIENCE = (150e-6, 8e-6)

# Bytes of the request and of the answer.
SIZES = {
    "put 8 B": (HEAD + WORD + SUM, HEAD),
    "get 8 B": (HEAD, HEAD + WORD + SUM),
    "fetch_add8": (HEAD, HEAD),
}


def _rows(
    effort: Effort, target: Target, cores: list[int], bodies: dict[str, list[Body]]
) -> list[Row]:
    sides = [side for several in bodies.values() for side in several]
    with target.doing(Activity.IDLE):
        progress("latency: idle cores")
        idle = singles(effort, *sides, in_a_row=IN_A_ROW)
        asleep = singles(effort, *sides, pause=ASLEEP)
        with busy_cores(cores):
            progress("latency: busy cores")
            busy = singles(effort, *sides, in_a_row=IN_A_ROW)
    states = {"idle cores": idle, "idle cores, after a pause": asleep, "busy cores": busy}
    for activity in COMPUTING:
        progress(f"latency: target in a {activity.value}")
        with target.doing(activity):
            states[f"target in a {activity.value}"] = singles(effort, *sides, in_a_row=IN_A_ROW)
    return [
        _row(f"{what}, {state}{WITHOUT_CODES}", *_better(samples, i), *_better(idle, i))
        for i, what in enumerate(bodies)
        for state, samples in states.items()
    ]


def _better(samples: list[Sample], i: int) -> tuple[Sample, Sample]:
    """Return ours and the better ping-pong of the operation of that number."""
    ours, *bare = samples[i * (1 + len(PATIENCE)) : (i + 1) * (1 + len(PATIENCE))]
    return ours, min(bare, key=lambda sample: sample.median)


def _row(what: str, ours: Sample, bare: Sample, idle: Sample, bare_idle: Sample) -> Row:
    times = 1.3 if WITHOUT_CODES or "after a pause" in what else 1.45
    goal, note = (
        Goal(times=times),
        f"nine of ten within {ours.most / US:.0f} and {bare.most / US:.0f} µs",
    )
    if ", target" in what:
        goal = Goal(times=times, at_most=1.3 * idle.median / US)
        note += (
            f"; time against target idle: {ours.median / idle.median:.2f} "
            f"and {bare.median / bare_idle.median:.2f}"
        )
    return Row(what, "µs", ours.median / US, "ping-pong", bare.median / US, goal, note=note)


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    effort, cores = Effort.of(quick), all_cores()
    keep_apart(int(os.environ["ACP_GROUP_RANK"]), 2)
    rows: list[Row] = []
    with acp.init():
        mine, word = acp.zeros(1, np.int64), np.ones(1, np.int64)
        ga = acp.allgather(acp.query_ga(mine))[1]
        calls = [put(ga, word), get(ga, word), fetch_add8(ga)]
        bodies = {}
        for call, (what, sizes) in zip(calls, SIZES.items(), strict=True):
            connection = bare_tcp.connect(0, 1)
            assert connection is not None
            if acp.rank() == 0:
                asks = [bare_tcp.ask(connection, *sizes, patience) for patience in PATIENCE]
                bodies[what] = [call, *asks]
            else:
                bare_tcp.serve(connection, *sizes)
        target = Target()
        if acp.rank() == 0:
            rows = _rows(effort, target, cores, bodies)
            target.release()
        else:
            target.serve()
        acp.sync()
    return rows
