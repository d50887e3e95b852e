"""The registry of a job that grows: a process that numbers newcomers, as long as the job lives.

The first process that starts a group has it made; it ends by itself when no process of the job is
left. A process has left when it ends, and the group of its maker also when that says so.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import time

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import handshake
from acp_mpi.job.rendezvous.announcement import Announcement
from acp_mpi.job.rendezvous.membership import Membership
from acp_mpi.job.rendezvous.messages import Kind
from acp_mpi.job.rendezvous.packing import Reader
from acp_mpi.job.rendezvous.reception import Reception
from acp_mpi.job.rendezvous.row import Process
from acp_mpi.job.rendezvous.secret import job_id
from acp_mpi.job.rendezvous.visitor import Visitor
from acp_mpi.spawn.groups import wire_format
from acp_mpi.spawn.groups.newcomers import Newcomers
from acp_mpi.util import host, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from acp_mpi.job.rendezvous.visitor import Talk

_LEAVE_TIMEOUT = 5.0  # for members to read their last message
_NEVER = 1e9


class Registry:
    """Give slots to the groups that come, and the table to members that ask."""

    def __init__(
        self,
        key: bytes,
        table: Membership,
        listener: socket.socket,
        promised: Iterable[str],
        makers: range,
        left: int,
    ) -> None:
        self._secret, self._job = key, job_id(key)
        self._newcomers = Newcomers(table)
        self._awaited: dict[Visitor, set[str]] = {}
        self._promised = set(promised)  # to its maker: these groups may come before it asks
        self._door = Reception(listener, self._talk, self._out_of_patience, self._gone)
        self._host = host.host_key()
        self._watched: dict[int, int] = {}  # the slots of processes, by their descriptors
        self._seen = 0
        self._watch_members()
        self._makers = makers
        self._door.watch(left, self._let_go)

    def serve(self) -> None:
        """Return when no member of this host and no visitor is left."""
        while self._watched or self._door.guests:
            self._door.turn(None)
        self._door.close()

    def _watch_members(self) -> None:
        """Note the ends of the processes here that have joined since the last look."""
        table = self._newcomers.table
        for slot in range(self._seen, len(table)):
            process = Process.of(table.row(slot))
            if process.host != self._host:
                continue
            with contextlib.suppress(OSError):  # it has ended already
                descriptor = processes.end_of(process.pid)
                if _runs(process):
                    self._watched[descriptor] = slot
                    self._door.watch(descriptor, self._lose)
                else:
                    os.close(descriptor)
        self._seen = len(table)

    def _lose(self, descriptor: int) -> None:
        self._door.unwatch(descriptor)
        del self._watched[descriptor]
        os.close(descriptor)

    def _let_go(self, left: int) -> None:
        """Stay no longer for the group of the maker of this process: it has left the job."""
        self._door.unwatch(left)
        os.close(left)
        for descriptor in [one for one, slot in self._watched.items() if slot in self._makers]:
            self._lose(descriptor)

    def _talk(self, visitor: Visitor) -> Talk:
        yield from visitor.prove(handshake.called(self._secret, self._job))
        self._door.admit(visitor)
        self._door.give_until(visitor, time.monotonic() + _NEVER)
        while True:
            kind, payload = yield from visitor.hear()
            if kind == Kind.ANNOUNCE:
                self._welcome(visitor, Announcement.unpack(payload))
            elif kind == Kind.AWAIT:
                self._await(visitor, payload)
            else:
                raise Error(f"expected an announcement or a question, and kind {kind} came")

    def _welcome(self, visitor: Visitor, member: Announcement) -> None:
        if not self._is_awaited(member.name):
            text = (
                f"nobody in this job awaits a group {member.name!r}: the process that has started "
                "it has ended, or waits no longer; groups are started by acp.spawn_group"
            )
            self._tell(visitor, Kind.REFUSED, text.encode())
            return
        try:
            complete = self._newcomers.enter(member, f"{member.origin} ({visitor.address})")
        except Error as reason:
            self._tell(visitor, Kind.REFUSED, str(reason).encode())
            return
        visitor.waiting = member
        self._door.give_until(visitor, time.monotonic() + member.patience)
        if not complete:
            return
        self._watch_members()
        table = self._newcomers.table.pack()
        for guest in tuple(self._door.guests):
            if guest.waiting is not None and guest.waiting.name == member.name:
                guest.waiting = None
                self._tell(guest, Kind.TABLE, table)
        for guest, names in tuple(self._awaited.items()):
            names.discard(member.name)
            self._answer(guest)

    def _await(self, visitor: Visitor, payload: bytes) -> None:
        reader = Reader(payload)
        count, maker = reader.numbers("<I?")
        wanted = {reader.text() for _ in range(count)}
        reader.end()
        present = {group.name for group in self._newcomers.table.groups}
        promised = wanted & self._promised if maker else set()
        self._promised -= promised
        taken = present.union(self._promised, *self._awaited.values())
        if twice := (wanted - promised) & taken:
            text = f"there is a group {min(twice)!r} in this job already: give it another name"
            self._door.tell(visitor, Kind.REFUSED, text.encode())
            return
        self._awaited[visitor] = wanted - (promised & present)
        self._answer(visitor)

    def _answer(self, visitor: Visitor) -> None:
        if not self._awaited[visitor]:
            del self._awaited[visitor]
            self._door.tell(visitor, Kind.TABLE, self._newcomers.table.pack())

    def _is_awaited(self, name: str) -> bool:
        return name in self._promised.union(*self._awaited.values())

    def _tell(self, visitor: Visitor, kind: int, payload: bytes) -> None:
        self._door.give_until(visitor, time.monotonic() + _LEAVE_TIMEOUT)
        self._door.tell(visitor, kind, payload)

    def _out_of_patience(self, visitor: Visitor) -> None:
        member = visitor.waiting
        if member is None:
            self._door.dismiss(visitor, "it does not leave")
            return
        visitor.waiting = None
        missing = self._newcomers.missing(member.name)
        self._newcomers.withdraw(member)
        text = f"waited {member.patience:.1f} s; missing: {missing}"
        self._tell(visitor, Kind.EXPIRED, text.encode())

    def _gone(self, visitor: Visitor) -> None:
        for name in self._awaited.pop(visitor, ()):
            for guest in tuple(self._door.guests):  # part of a group that is not awaited any more
                if guest.waiting is not None and guest.waiting.name == name:
                    self._newcomers.withdraw(guest.waiting)
                    guest.waiting = None
                    text = f"the starter of group {name!r} has ended, or waits no longer"
                    self._tell(guest, Kind.FAILED, text.encode())
        if visitor.waiting is not None:
            self._newcomers.withdraw(visitor.waiting)


def _runs(process: Process) -> bool:
    try:
        return processes.start_time(process.pid) == process.start_time
    except OSError:  # it has ended meanwhile
        return False


def run(line: int, listener: int, errors: int, left: int) -> None:
    """Run in a process of its own, with what `line` says.

    Secret, table, names awaited already, and the slots of the group that has left when `left` is
    readable. It ends with the job, not with its starter; what goes wrong is written to `errors`.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.dup2(errors, 2)
    os.close(errors)
    with socket.socket(fileno=line) as talk, talk.makefile("rb") as said:
        (key, table, names, makers), *_ = wire_format.parted(said.read())[0]
    door = socket.socket(fileno=listener)
    Registry(key, Membership.unpack(table), door, names, range(*makers), left).serve()
