"""`macprun status` and `macprun kill`: running jobs of this user on this host, from outside."""

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from acp_mpi import members
from acp_mpi.errors import Error
from acp_mpi.heap_survey import JobSurvey
from acp_mpi.spawn.macprun import control

_WAY = {
    "is in recv": "from", "is in probe": "from", "is in send": "to",
    "is in a collective": "and waits for",
}  # fmt: skip


def main(command: str, argv: Sequence[str]) -> int:
    """Run `status` or `kill`; return the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"macprun {command}",
        description="Show running jobs: their groups, ranks and hosts, and what each rank waits "
        "for, as far as it is on this host."
        if command == "status"
        else "End a running job: its groups are asked to, and killed after 5 s.",
    )
    parser.add_argument(
        "pid", metavar="PID", type=int, nargs="?", help="of macprun; needed if several run"
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
    if len(pids) != 1:
        which = ", ".join(map(str, pids)) or "none"
        raise Error(f"kill: say which macprun; of this user run {which}")
    return pids[0]


def _lines(pid: int, job: Any) -> Iterator[str]:
    yield f"macprun {pid}: {'joined' if job['joined'] else 'its groups come together'}"
    seen = _doing(job["supervisor"])
    rank = 0
    for group in job["groups"]:
        size, kind = group["size"], "MPI" if group["mpi"] else "without MPI"
        came = "" if job["joined"] else f", {group['came']} came"
        yield f"  {group['name']}: {size} ranks, {kind}{came}" + (
            f", ended: {group['ended']}" if group["ended"] else ""
        )
        places = [host for host, slots in group["hosts"] for _ in range(slots)]
        for number in range(size):
            label = f"{group['name']}.{number}"
            host = places[number] if number < len(places) else "?"
            if rank in seen:
                process, what, whom = seen[rank]
                state = f"{process:>8} {members.DOING[what]}"
                if whom is not None:
                    state += f" {_WAY[members.DOING[what]]} rank {whom}"
            else:
                state = "       -"
            yield f"    {rank:>5} {label:<16} {host:<12} {state}"
            rank += 1


def _doing(supervisor: int) -> dict[int, tuple[int, int, int | None]]:
    try:
        with JobSurvey(supervisor) as survey:
            return survey.doing()
    except Error:  # nobody here has joined yet, or is left
        return {}
