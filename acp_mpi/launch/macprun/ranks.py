"""The ranks of a running job as `macprun status` sees them, from outside."""

import platform

from acp_mpi.errors import Error
from acp_mpi.job import membership
from acp_mpi.job.registry import locate
from acp_mpi.job.registry.client import Question
from acp_mpi.job.rendezvous.membership import ROW_SIZE, Group
from acp_mpi.job.rendezvous.row import Process, nonce
from acp_mpi.launch.macprun import control
from acp_mpi.launch.macprun.inquiry import Doing, Inquiry
from acp_mpi.tools.heap_survey import JobSurvey
from acp_mpi.util.host import host_key

_WAY = {
    "is in recv": "from", "is in probe": "from", "is in send": "to",
    "is in a collective": "and waits for",
}  # fmt: skip
_PATIENCE = 2.0  # s for the registry


class Ranks:
    """The state of each rank, by slot; nothing until all have joined.

    Ranks of this host are read from memory without disturbing them, the others are asked.
    """

    def __init__(self, pid: int, supervisor: int) -> None:
        said = control.ask(pid, "members")
        rows = bytes.fromhex(said["rows"])
        self._secret = bytes.fromhex(said["secret"])
        self._supervisor = supervisor
        self._rows: dict[int, bytes] = {}
        self._doing: dict[int, Doing] = {}
        self._permuted = False
        self.absent: set[int] = set()
        """Ranks that have left, or ended."""
        self._look(
            {at // ROW_SIZE: rows[at : at + ROW_SIZE] for at in range(0, len(rows), ROW_SIZE)}
        )

    def look_at_later_ones(self) -> tuple[Group, ...]:
        """Return the groups that the job has started itself, and look at them.

        Error: their registry, at the address that the ranks know, does not answer.
        """
        notices = (doing.notice for doing in self._doing.values())
        address = next(filter(None, map(locate.address_of, notices)), None)
        if address is None:
            return ()
        with Question(address, self._secret) as question:
            table = question.answer(_PATIENCE)
        began = len(self._rows)
        self._look({slot: table.row(slot) for slot in range(began, len(table))})
        return tuple(group for group in table.groups if group.offset >= began)

    def line(self, slot: int, label: str, host: str) -> str:
        """Return what is shown of a rank: its number, name, host and process, and what it does."""
        return line(label, host, *self._words(slot))

    def host(self, slot: int) -> str:
        """Return where a rank is: the name of this host, or an address."""
        process = Process.of(self._rows[slot])
        return platform.node() if process.host == host_key() else process.address or "?"

    def _look(self, rows: dict[int, bytes]) -> None:
        seen = _seen(self._supervisor) if rows else {}
        unseen = {slot: row for slot, row in rows.items() if nonce(row) not in seen}
        inquiry = Inquiry(self._secret, unseen, host_key())
        inquiry.run()
        self._rows |= rows
        self._doing |= inquiry.answers
        self._doing |= {slot: seen[nonce(rows[slot])] for slot in rows.keys() - unseen.keys()}
        self._permuted = any(doing.rank != slot for slot, doing in self._doing.items())
        self.absent |= inquiry.absent - inquiry.answers.keys()

    def _words(self, slot: int) -> tuple[str, str, str]:
        if slot not in self._rows:
            return str(slot), "-", "joins"
        doing = self._doing.get(slot)
        if doing is not None:
            rank, text = str(doing.rank), _text(doing)
        else:
            rank = "?" if self._permuted else str(slot)
            text = "has left" if slot in self.absent else "does not answer"
        return rank, str(Process.of(self._rows[slot]).pid), text


def line(label: str, host: str, rank: str, pid: str, state: str) -> str:
    """Return the line of a rank."""
    return f"    {rank:>5} {label:<16} {host:<12} {pid:>8} {state}"


def _seen(supervisor: int) -> dict[int, Doing]:
    try:
        with JobSurvey(supervisor) as survey:
            return {process: Doing(*what) for process, what in survey.doing().items()}
    except Error:  # no rank here is left, or may be looked at
        return {}


def _text(doing: Doing) -> str:
    text = membership.DOING[doing.what]
    if doing.whom is None or text not in _WAY:  # it went on between the two looks at it
        return text
    return f"{text} {_WAY[text]} rank {doing.whom}"
