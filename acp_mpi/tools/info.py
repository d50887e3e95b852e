"""`python -m acp_mpi info`: what a bug report needs, measured and not guessed."""

import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from acp_mpi import config
from acp_mpi.comm.collectives import calls
from acp_mpi.engine import _engine
from acp_mpi.job import membership, runtime
from acp_mpi.job.rendezvous.announcement import own
from acp_mpi.rma.device_array import devices
from acp_mpi.tools import device_roads, measure, stdout, table
from acp_mpi.util import usage

_ROUNDS = 30


def _version(module: str) -> str:
    try:
        return str(__import__(module).__version__)
    except ImportError:
        return "not installed"


def _large_pages() -> str:
    """Return which large pages the kernel lets files in memory have."""
    try:
        choices = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled").read_text()
    except OSError:
        return "not told by this system"
    return choices.partition("[")[2].partition("]")[0]


def _mpi() -> list[tuple[str, str]]:
    if not membership.job().own.has_mpi:
        return [("MPI", "not used by this process; it is under mpiexec, and with ACP_MPI=1")]
    from mpi4py import MPI

    levels = {
        MPI.THREAD_SINGLE: "SINGLE",
        MPI.THREAD_FUNNELED: "FUNNELED",
        MPI.THREAD_SERIALIZED: "SERIALIZED",
        MPI.THREAD_MULTIPLE: "MULTIPLE",
    }
    library = MPI.Get_library_version().replace("\0", "").strip().splitlines()[0]
    return [
        ("MPI", " ".join(library.split())),
        ("MPI standard", ".".join(map(str, MPI.Get_version()))),
        ("thread level", levels[MPI.Query_thread()]),
    ]


def _latency(rank: int) -> float:
    """Return the median time in microseconds of a fetch_add8 of 0 at `rank`."""
    word = _engine.post_ga(rank)  # there may be no starter memory
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        _engine.fetch_add8(word, 0)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def _roads() -> list[tuple[int, str, str, str, float]]:
    rows = []
    for rank in membership.ranks():
        road, opened, registered, _ = _engine.road(rank)
        rows.append((rank, road, opened, registered, _latency(rank)))
    return rows


def _environment() -> list[tuple[str, str]]:
    """Return what is set; `init` takes the secret away, so this comes before it."""
    rows = []
    for name in sorted(config.VARIABLES):
        if name in os.environ:
            secret = name == "ACP_SECRET"
            rows.append((name, "set, not shown" if secret else os.environ[name]))
    return rows or [("ACP_*", "none set")]


def _named(group: Any) -> str:
    return f"{group.name} ({group.size} rank{'s' * (group.size > 1)})"


def _devices() -> str:
    """Return the devices whose memory can be global, or why there are none; loads their drivers."""
    texts = []
    for each in devices():
        state = each.reason or f"{each.model}, {'a' if each.active else 'no'} context here"
        texts.append(f"{each.name}: {state}")
    return "; ".join(texts) or "none"


def _facts() -> list[tuple[str, str]]:
    limit, committed, _, starter, _, _ = _engine.memory_statistics()
    return [
        ("acp_mpi", str(own())),
        ("Python", platform.python_version()),
        ("mpi4py", _version("mpi4py")),
        ("NumPy", _version("numpy")),
        *_mpi(),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("processors", str(len(os.sched_getaffinity(0)))),
        ("memory", f"{_engine.memory_total() / 2**30:.1f} GiB"),
        ("large pages", f"{_large_pages()} (shmem_enabled; with advise large arrays have them)"),
        ("global memory of a rank", f"at most {limit / 2**20:.1f} MiB, now {committed >> 10} KiB"),
        ("starter memory", f"{starter} bytes"),
        ("MPI window", membership.job().window_state),
        ("devices", _devices()),
        ("groups", ", ".join(map(_named, membership.groups()))),
        ("threads", "one progress thread a process, asleep when there is nothing to do"),
    ]


def _print(
    nodes: dict[str, list[int]],
    everyone: list[dict[str, Any]],
    environment: list[tuple[str, str]],
) -> None:
    print(table.text([[name, value] for name, value in _facts()]))
    print("\nenvironment")
    print(table.text(environment))
    print("\nnodes")
    print(
        table.text(
            [[name, "ranks " + " ".join(map(str, members))] for name, members in nodes.items()]
        )
    )
    print("\nroads: from, to, road, memory opened by, registered memory by, fetch_add8")
    rows = []
    for one in everyone:
        for to, road, opened, registered, us in one["roads"]:
            rows.append([str(one["rank"]), str(to), road, opened, registered, f"{us:.2f} us"])
    print(table.text(rows))
    rows = [
        [str(one["rank"]), str(to), name, reach]
        for one in everyone
        for to, name, reach in one["devices"]
    ]
    if rows:
        print("\ndevice memory: from, to, device, how it is reached")
        print(table.text(rows))
    sys.stdout.flush()


def _report(
    environment: list[tuple[str, str]], wants_times: bool
) -> tuple[bool, int, measure.Measurements | None]:
    """Print the report on the first rank that lives.

    Return whether this is that rank, its exit code, and what was measured.
    """
    mine: dict[str, Any] = {"roads": [], "rank": _engine.rank()}
    name = os.environ.get("ACP_NODE")
    mine["node"] = f"{platform.node()}{'' if name is None else f' (ACP_NODE={name})'}"
    living = [rank for rank in calls.allgather(_engine.rank()) if rank is not None]
    for rank in living:  # one after the other: a measurement alone
        if rank == _engine.rank():
            mine["roads"] = _roads()
        _engine.sync()
    mine["devices"] = device_roads.look()
    everyone = [one for one in calls.allgather(mine) if one is not None]
    nodes: dict[str, list[int]] = {}
    for one in everyone:
        nodes.setdefault(one["node"], []).append(one["rank"])
    code = 0
    if is_first := _engine.rank() == living[0]:
        try:
            _print(nodes, everyone, environment)
        except OSError as reason:
            code = stdout.lost("info", reason)
    return is_first, code, measure.Measurements(nodes) if wants_times else None


def main(argv: list[str]) -> int:
    """Print the report on the first rank that lives. Collective over the job."""
    parser = usage.Parser(
        prog="python -m acp_mpi info",
        description="Show what a bug report needs: versions, nodes, roads between ranks with their "
        "measured latency, limits, environment.",
        epilog="Under the launcher of the program: mpiexec -n 4 python -m acp_mpi info",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="also show the machines of the nodes, and how long put, get and an atomic take for "
        "each pair of nodes: by the road that is taken, by link, and in MPI's window",
    )
    given = parser.parse_args(argv)
    stdout.stand_in()
    environment = _environment()
    with runtime.init():
        is_first, code, measured = _report(environment, given.measure)
    if measured is not None:
        measured.by_link({name for name, _ in environment})
        if is_first:
            try:
                measured.show()
            except OSError as reason:
                code = stdout.lost("info", reason)
    return code
