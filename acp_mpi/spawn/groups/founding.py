"""The registry of the job for a process that starts groups: found, or made now."""

from __future__ import annotations

import os
from _thread import allocate_lock

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job.registry import locate
from acp_mpi.job.registry.client import NoRegistryError, Question
from acp_mpi.job.rendezvous.address import format_address
from acp_mpi.job.rendezvous.connection import Connection
from acp_mpi.job.rendezvous.row import Process
from acp_mpi.launch.macprun.meeting import Meeting
from acp_mpi.spawn.groups import fork_server_client, wire_format
from acp_mpi.util import lifecycle
from acp_mpi.util._system import memfd_create

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_mpi.job.join import Job
    from acp_mpi.job.rendezvous.membership import Membership

_BACKLOG = 1024  # that have called, and are not heard yet
_LAST_WORDS = 2000  # bytes

_lock = allocate_lock()
_made: _Made | None = None  # in this job, by this process


class _Made:
    """The registry that a process has made, as it keeps it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.said = memfd_create("acp_mpi.registry")
        """Its errors."""
        self.left = os.eventfd(0)
        """Tells it that the group of this process has left the job, which may live on."""

    def leave(self) -> None:
        os.eventfd_write(self.left, 1)
        os.close(self.left)
        os.close(self.said)

    def last_words(self) -> str:
        size = os.fstat(self.said).st_size
        data = os.pread(self.said, _LAST_WORDS, max(size - _LAST_WORDS, 0))
        text = data.decode(errors="replace").strip()
        return f"; its last words:\n{text}" if text else "; it said nothing"


@lifecycle.on_close
def _leave() -> None:
    """Let the registry end with the others: a group leaves together."""
    global _made
    with _lock:
        if _made is not None:
            _made.leave()
            _made = None


class Registry:
    """Where newcomers get their numbers; made for the first of them.

    `promised`: it was made now, and takes the groups of these names for this process's.
    """

    def __init__(self, job: Job, names: tuple[str, ...]) -> None:
        self.promised = False
        with _lock:
            if job.registry is None:
                job.registry = locate.find(job.founders)
            if job.registry is None:
                job.registry = self._make(job, names)
            self.meeting = Meeting(job.registry, job.place.secret, f".{os.getpid()}")

    def _make(self, job: Job, names: tuple[str, ...]) -> str:
        global _made
        host = Process.of(_engine.row()).address or "127.0.0.1"
        with Connection() as listener:
            listener.bind((host, 0))
            listener.listen(_BACKLOG)
            address = format_address(*listener.getsockname()[:2])
            if other := locate.announce(job.founders, address):
                return other
            made = _Made(address)
            try:
                with fork_server_client.make(
                    wire_format.REGISTRY, listener.fileno(), made.said, made.left
                ) as line:
                    own = job.slots.start, job.slots.stop
                    line.sendall(
                        wire_format.framed((job.place.secret, job.table().pack(), names, own))
                    )
            except BaseException:
                made.leave()
                locate.take_back(job.founders, address)
                raise
            _made = made
        self.promised = True
        return address

    def question(self, names: tuple[str, ...] = ()) -> Question:
        """Ask for the table, which comes when the groups of these names have."""
        address, secret = self.meeting.address, self.meeting.secret
        maker = _made is not None and _made.address == address
        try:
            return Question(address, secret, names, maker=maker)
        except NoRegistryError as error:
            raise Error(f"spawn_group: {error}{self._last_words()}") from error

    def answer(self, question: Question) -> Membership:
        """Return the table that was asked for."""
        try:
            return question.answer()
        except NoRegistryError as error:
            raise Error(f"spawn_group: {error}{self._last_words()}") from error

    def _last_words(self) -> str:
        with _lock:
            if _made is None or _made.address != self.meeting.address:
                return ""
            return _made.last_words()
