"""The place where the groups of a job find each other: a small server that holds the table."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Self

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import handshake
from acp_mpi.job.rendezvous.announcement import Announcement
from acp_mpi.job.rendezvous.arrival import Arrival
from acp_mpi.job.rendezvous.expectation import Expectation
from acp_mpi.job.rendezvous.membership import Membership
from acp_mpi.job.rendezvous.messages import Kind
from acp_mpi.job.rendezvous.reception import Reception
from acp_mpi.job.rendezvous.roll import Roll
from acp_mpi.job.rendezvous.secret import job_id
from acp_mpi.job.rendezvous.visitor import Visitor
from acp_mpi.util import log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from acp_mpi.job.rendezvous.visitor import Talk

_LEAVE_TIMEOUT = 5.0  # for members to read their last message


class Statistics(NamedTuple):
    """Counts of what a rendezvous has seen."""

    members: int  # waiting for the others, or not yet gone with the table
    pending: int  # connections in the handshake
    dropped: int  # connections that did not prove themselves
    refused: int  # members that did and still could not join


class Server:
    """Listen for the groups of a job and give the table to all when the last is there.

    `expected` is how many groups there will be, or their names and sizes in the order of their
    slots. `listen` is "host:port", port 0 any free one. `timeout` seconds after its start the
    server gives up and tells all of the missing ones. Runs in a thread of its own from
    construction until all have left, or, if it `stays` to refuse later ones, to `close`;
    asleep while nothing arrives; any thread may call its methods.
    """

    def __init__(
        self,
        secret: bytes,
        expected: int | Mapping[str, int] | Expectation,
        *,
        listen: str = "127.0.0.1:0",
        timeout: float = 60.0,
        stays: bool = False,
    ) -> None:
        self._secret, self._job = secret, job_id(secret)
        self._roll, self._lock = Roll(expected), threading.Lock()  # also of the verdict
        self._timeout, self._end = timeout, time.monotonic() + timeout
        self._stays = stays
        self._door = Reception(listen, self._talk, self._out_of_patience, self._gone)
        self.address = self._door.address
        self._verdict: tuple[int, bytes] | None = None
        self._last_word: tuple[int, bytes] | None = None  # the verdict, once it is being sent
        self._refused, self._closing = 0, False
        self._table = Membership()
        self._outcome: Membership | Exception | None = None
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acp-rendezvous", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> Membership:
        """Return the table once all members have received it and left.

        Raises TimeoutError with the missing members when the server or this call runs out of time,
        Error when a group has failed or the server was closed.
        """
        if not self._settled.wait(timeout):
            with self._lock:
                report = self._roll.report()
            raise TimeoutError(f"not all have joined and left within {timeout:g} s; {report}")
        assert self._outcome is not None
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def settled(self, timeout: float) -> bool:
        """Return whether `wait` has an answer within `timeout` seconds."""
        return self._settled.wait(timeout)

    def arrivals(self) -> tuple[Arrival, ...]:
        """Return what has come of each group by now: those expected by name, then the others."""
        with self._lock:
            return self._roll.arrivals()

    def fail(self, name: str, reason: str) -> None:
        """Tell waiting and later members that group `name` ended before it had joined.

        Nothing happens if the job is complete already.
        """
        with self._lock:
            if self._verdict is None:
                text = self._roll.fail(name, reason)  # which may name a file in other bytes
                self._verdict = Kind.FAILED, text.encode(errors="backslashreplace")
        self._door.ring()

    def close(self) -> None:
        """Stop serving; members that still wait see the connection break."""
        self._closing = True
        self._door.ring()
        self._thread.join()

    @property
    def closed(self) -> bool:
        """Whether the server has ended, by `close` or because all have left."""
        return not self._thread.is_alive()

    def statistics(self) -> Statistics:
        """Return counts of connections."""
        door = self._door
        return Statistics(len(door.guests), len(door.strangers), door.dropped, self._refused)

    def __repr__(self) -> str:
        return f"<rendezvous at {self.address}{' (closed)' * self.closed}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- In the server's thread ------------------------------------------------------------

    def _run(self) -> None:
        outcome: Membership | Exception = Error("the rendezvous was closed")
        try:
            if self._serve():
                outcome = self._said()
        except Exception as reason:
            outcome = reason
        finally:
            self._door.close()
            self._settle(outcome)

    def _serve(self) -> bool:
        """Return True when all members have the verdict, False when the server is closed."""
        while not self._closing:
            over = time.monotonic() >= self._end
            if over and self._verdict is None:
                self._give_up()
            if self._verdict is not None and not self._last_word:
                self._tell_all(self._verdict)
            if self._last_word and not self._door.guests:
                if over or not (self._failed or self._stays):
                    return True
                self._settle(self._said())  # and stay: later ones get it, too
            self._door.turn(None if over or (self._last_word and not self._failed) else self._end)
        return False

    @property
    def _failed(self) -> bool:
        return self._verdict is not None and self._verdict[0] == Kind.FAILED

    def _said(self) -> Membership | Exception:
        assert self._verdict is not None
        kind, payload = self._verdict
        if kind == Kind.TABLE:
            return self._table
        return (TimeoutError if kind == Kind.EXPIRED else Error)(payload.decode())

    def _settle(self, outcome: Membership | Exception) -> None:
        if not self._settled.is_set():
            self._outcome = outcome
            self._settled.set()

    def _give_up(self) -> None:
        with self._lock:
            text = f"the job was not complete within {self._timeout:g} s; {self._roll.report()}"
            self._verdict = self._verdict or (Kind.EXPIRED, text.encode())

    def _talk(self, visitor: Visitor) -> Talk:
        yield from visitor.prove(handshake.called(self._secret, self._job))
        self._door.admit(visitor)
        kind, payload = yield from visitor.hear()
        if kind != Kind.ANNOUNCE:
            raise Error(f"expected an announcement, and a message of kind {kind} came")
        self._welcome(visitor, Announcement.unpack(payload))
        yield b"", 1  # it has nothing more to say, and leaves

    def _welcome(self, visitor: Visitor, member: Announcement) -> None:
        self._door.give_until(visitor, time.monotonic() + member.patience)
        try:
            entered = self._enter(visitor, member)
        except Error as reason:
            self._refused += 1
            log.warning(
                "spawn", "group %r from %s refused: %s", member.name, visitor.address, reason
            )
            self._tell(visitor, (Kind.REFUSED, str(reason).encode()))
            return
        if self._verdict is not None and not self._last_word:
            self._tell_all(self._verdict)
        if not entered:
            assert self._last_word is not None
            self._tell(visitor, self._last_word)

    def _enter(self, visitor: Visitor, member: Announcement) -> bool:
        with self._lock:
            if self._verdict is None:
                self._roll.enter(member, f"{member.origin} ({visitor.address})")
                visitor.waiting = member
                if self._roll.complete:
                    self._table = self._roll.membership()
                    self._verdict = Kind.TABLE, self._table.pack()
            elif self._verdict[0] == Kind.TABLE:
                raise Error(
                    "the job is complete, and nobody else can join it; a process of a group joins "
                    "once, in the first program that it runs, and acp.spawn_group starts more"
                )
            return visitor.waiting is not None

    def _tell_all(self, verdict: tuple[int, bytes]) -> None:
        self._last_word = verdict
        for visitor in self._door.guests:
            if visitor.waiting is not None:
                self._tell(visitor, self._last_word)

    def _tell(self, visitor: Visitor, last_word: tuple[int, bytes]) -> None:
        visitor.waiting = None
        self._door.tell(visitor, *last_word)
        leave = time.monotonic() + _LEAVE_TIMEOUT
        # the network may be slow; what is on its way is read by one that is stopped, too, later
        self._door.give_until(visitor, max(visitor.deadline, leave) if visitor.unsent else leave)

    def _out_of_patience(self, visitor: Visitor) -> None:
        member = visitor.waiting
        if member is None:
            self._door.dismiss(visitor, "it says nothing, or does not leave")
            return
        with self._lock:
            report = f"waited {member.patience:.1f} s; {self._roll.report()}"
            self._roll.withdraw(member)
        self._tell(visitor, (Kind.EXPIRED, report.encode()))

    def _gone(self, visitor: Visitor) -> None:
        if (member := visitor.waiting) is not None:
            log.warning("spawn", "group %r from %s left too early", member.name, visitor.address)
            with self._lock:
                self._roll.withdraw(member)
