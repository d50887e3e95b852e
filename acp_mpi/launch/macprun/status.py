"""`macprun status` and `macprun kill`: running jobs of this user on this host, from outside."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from acp_mpi.errors import Error
from acp_mpi.launch.macprun import control
from acp_mpi.launch.macprun.ranks import Ranks, line
from acp_mpi.util import usage
from acp_mpi.util.text import ranges


def main(command: str, argv: Sequence[str]) -> int:
    """Run `status` or `kill`; return the exit code."""
    parser = usage.Parser(
        prog=f"macprun {command}",
        description="Show running jobs: their groups, ranks and hosts, and what each rank waits "
        "for."
        if command == "status"
        else "End a running job: its groups are asked to, and killed after 5 s.",
    )
    without = "all jobs" if command == "status" else "the only one that runs"
    parser.add_argument(
        "pid", metavar="PID", type=int, nargs="?", help=f"of macprun (default: {without})"
    )
    pid = parser.parse_args(argv).pid
    if command == "kill":
        control.ask(_only() if pid is None else pid, "kill")
        return 0
    if pid is not None:
        _show(pid)
        return 0
    shown = 0
    for one in control.jobs():
        with contextlib.suppress(Error):  # it has ended meanwhile
            _show(one)
            shown += 1
    if not shown:
        print("no macprun of this user runs on this host")
    return 0


def _show(pid: int) -> None:
    print("\n".join(_lines(pid, control.ask(pid, "status"))))


def _only() -> int:
    pids = control.jobs()
    if not pids:
        raise Error("kill: no macprun of this user runs on this host")
    if len(pids) > 1:
        which = ", ".join(map(str, pids))
        raise Error(f"kill: several macprun of this user run here: give one of {which}")
    return pids[0]


def _lines(pid: int, job: Any) -> Iterator[str]:
    yield f"macprun {pid}: {'joined' if job['joined'] else 'its groups come together'}"
    ranks = Ranks(pid, job["supervisor"])
    missing = _missing(job["groups"])
    slot = 0
    for group in job["groups"]:
        size, what = group["size"], "service" if group["service"] else "rank"
        title = _title(group["name"], size, group["mpi"], what)
        came = "" if job["joined"] else f", {len(group['came'])} came"
        yield title + came + (f", ended: {group['ended']}" if group["ended"] else "")
        places = [host for host, slots in group["hosts"] for _ in range(slots)]
        for number in range(size):
            label = f"{group['name']}.{number}"
            host = places[number] if number < len(places) else "?"
            if job["joined"]:
                yield ranks.line(slot, label, host)
            else:
                state = f"waits for {missing}" if number in group["came"] else "has not come"
                yield line(label, host, str(slot), "-", state)
            slot += 1
    yield from _later(ranks)


def _title(name: str, size: int, has_mpi: bool, what: str = "rank") -> str:
    return f"  {name}: {size} {what}{'s' * (size != 1)}, {'MPI' if has_mpi else 'without MPI'}"


def _missing(groups: Sequence[Any]) -> str:
    """Name the ranks that have not come, as a group and its ranks: worker.0-3."""
    absent = {g["name"]: ranges(set(range(g["size"])) - set(g["came"])) for g in groups}
    return ", ".join(f"{name}.{numbers}" for name, numbers in absent.items() if numbers)


def _later(ranks: Ranks) -> Iterator[str]:
    """Show the groups that the job has started itself and that have not ended."""
    try:
        groups = ranks.look_at_later_ones()
    except Error as reason:
        yield f"  groups that were started later are not known: {reason}"
        return
    living = [group for group in groups if any(slot not in ranks.absent for slot in group.slots)]
    for group in living:
        yield f"{_title(group.name, group.size, group.has_mpi)}, started later"
        for number, slot in enumerate(group.slots):
            yield ranks.line(slot, f"{group.name}.{number}", ranks.host(slot))
    if ended := len(groups) - len(living):
        yield f"  groups that were started later and have ended: {ended}"
