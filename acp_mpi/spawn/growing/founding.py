"""The registry of the job, as who starts groups meets it: found, or made now."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.spawn.growing import starting, whereabouts, words
from acp_mpi.spawn.growing.questions import NoRegistryError, Question
from acp_mpi.spawn.growing.starter import REGISTRY
from acp_mpi.spawn.macprun.meeting import Meeting
from acp_mpi.spawn.rendezvous.address import format_address
from acp_mpi.spawn.rendezvous.row import Process

if TYPE_CHECKING:
    from acp_mpi.joining import Job
    from acp_mpi.spawn.rendezvous.membership import Membership

_LAST_WORDS = 2000  # bytes

_lock = threading.Lock()
_said: dict[str, int] = {}  # by address: a file in memory with the errors of one made here


class Registry:
    """Where newcomers get their numbers; made for the first of them.

    `promised`: it was made now, and takes the groups of these names for this process's.
    """

    def __init__(self, job: Job, names: tuple[str, ...]) -> None:
        self.promised = False
        with _lock:
            if job.registry is None:
                job.registry = whereabouts.find(job.founders)
            if job.registry is None:
                job.registry = self._make(job, names)
            self.meeting = Meeting(job.registry, job.place.secret)

    def _make(self, job: Job, names: tuple[str, ...]) -> str:
        host = Process.of(_engine.row()).address or "127.0.0.1"
        with socket.create_server((host, 0), backlog=1024) as listener:
            address = format_address(*listener.getsockname()[:2])
            if other := whereabouts.announce(job.founders, address):
                return other
            said = os.memfd_create("acp_mpi.registry")
            with starting.make(REGISTRY, listener.fileno(), said) as line:
                line.sendall(words.framed((job.place.secret, job.table().pack(), names)))
            _said[address] = said
        self.promised = True
        return address

    def question(self, names: tuple[str, ...] = ()) -> Question:
        """Ask for the table, which comes when the groups of these names have."""
        try:
            return Question(self.meeting.address, self.meeting.secret, names)
        except NoRegistryError as error:
            raise Error(f"spawn_group: {error}{self._last_words()}") from error

    def answer(self, question: Question) -> Membership:
        """Return the table that was asked for."""
        try:
            return question.answer()
        except NoRegistryError as error:
            raise Error(f"spawn_group: {error}{self._last_words()}") from error

    def _last_words(self) -> str:
        file = _said.get(self.meeting.address)
        if file is None:
            return ""
        size = os.fstat(file).st_size
        text = os.pread(file, _LAST_WORDS, max(size - _LAST_WORDS, 0)).decode(errors="replace")
        return f"; its last words:\n{text.strip()}" if text else "; it said nothing"
