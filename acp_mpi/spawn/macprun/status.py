"""`macprun status` and `macprun kill`: running jobs of this user on this host, from outside."""

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from acp_mpi import members
from acp_mpi.errors import Error
from acp_mpi.heap_survey import JobSurvey
from acp_mpi.host import host_key
from acp_mpi.spawn.macprun import control
from acp_mpi.spawn.macprun.inquiry import Doing, Inquiry
from acp_mpi.spawn.rendezvous.membership import ROW_SIZE
from acp_mpi.spawn.rendezvous.row import Process, nonce

_WAY = {
    "is in recv": "from", "is in probe": "from", "is in send": "to",
    "is in a collective": "and waits for",
}  # fmt: skip


def main(command: str, argv: Sequence[str]) -> int:
    """Run `status` or `kill`; return the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"macprun {command}",
        description="Show running jobs: their groups, ranks and hosts, and what each rank waits "
        "for."
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
    states = _states(pid, job["supervisor"])
    slot = 0
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
            rank, state = states.get(slot, (str(slot), f"{'-':>8}"))
            yield f"    {rank:>5} {label:<16} {host:<12} {state}"
            slot += 1


def _states(pid: int, supervisor: int) -> dict[int, tuple[str, str]]:
    """Return rank, and process and state, by slot; nothing until all have joined.

    Ranks whose memory can be seen are not disturbed, the others are asked.
    """
    said = control.ask(pid, "members")
    secret, rows = bytes.fromhex(said["secret"]), bytes.fromhex(said["rows"])
    rows_of = {at // ROW_SIZE: rows[at : at + ROW_SIZE] for at in range(0, len(rows), ROW_SIZE)}
    seen = _seen(supervisor) if rows_of else {}
    unseen = {slot: row for slot, row in rows_of.items() if nonce(row) not in seen}
    inquiry = Inquiry(secret, unseen, host_key())
    inquiry.run()
    known = {
        slot: seen.get(nonce(row)) or inquiry.answers.get(slot) for slot, row in rows_of.items()
    }
    permuted = any(doing is not None and doing.rank != slot for slot, doing in known.items())
    states = {}
    for slot, doing in known.items():
        if doing is not None:
            rank, text = str(doing.rank), _words(doing)
        else:
            rank = "?" if permuted else str(slot)
            text = "has left" if slot in inquiry.absent else "does not answer"
        states[slot] = rank, f"{Process.of(rows_of[slot]).pid:>8} {text}"
    return states


def _seen(supervisor: int) -> dict[int, Doing]:
    try:
        with JobSurvey(supervisor) as survey:
            return {process: Doing(*what) for process, what in survey.doing().items()}
    except Error:  # nobody here is left, or may be looked at
        return {}


def _words(doing: Doing) -> str:
    text = members.DOING[doing.what]
    return text if doing.whom is None else f"{text} {_WAY[text]} rank {doing.whom}"
