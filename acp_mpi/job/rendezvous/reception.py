"""The door of the rendezvous: connections, proofs of the secret, and deadlines."""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import socket
import threading
import time

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.address import format_address, own_address, parse_address, said_of
from acp_mpi.job.rendezvous.visitor import Visitor
from acp_mpi.util import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from acp_mpi.job.rendezvous.visitor import Talk

HANDSHAKE_TIMEOUT = 5.0
CROWD_TIMEOUT = 0.5  # for the oldest handshake, while others cannot be let in
PENDING_MAX = 256  # connections that have not proved themselves; more wait in the kernel's queue
_LOUD = 16  # warnings, at most: a crowd would fill the log
_AT_A_TIME = 64  # strangers let in before the guests have their turn
_PAUSE = 1.0  # when there are no descriptors left: some will be given back
_FEW = 64  # deadlines of visitors that have gone, which need not be cleared away
_LONGEST = 86400.0  # of one look: epoll takes no more than 24 days


class Reception:
    """Listen on "host:port", or a socket, and drive one talk with each visitor in this thread.

    A talk calls `admit` when the visitor has proved itself and becomes a guest; then `expire` is
    called at its deadline and `leave` when it has gone.
    """

    def __init__(
        self,
        listen: str | socket.socket,
        talk: Callable[[Visitor], Talk],
        expire: Callable[[Visitor], None],
        leave: Callable[[Visitor], None],
    ) -> None:
        self._talk, self._expire, self._leave = talk, expire, leave
        self._listener = listen if isinstance(listen, socket.socket) else _listener(listen)
        self._listener.setblocking(False)
        self.address = _address(self._listener)
        self._selector = selectors.DefaultSelector()
        self._bell, self._bell_lock = (
            os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK),
            threading.Lock(),
        )
        self._selector.register(self._bell, selectors.EVENT_READ)
        self.strangers: dict[Visitor, float] = {}  # and since when, the oldest first
        self.guests: set[Visitor] = set()
        self.dropped = 0
        self._deadlines: list[tuple[float, int, Visitor]] = []
        self._numbers = itertools.count()
        self._open, self._pause = False, 0.0

    def turn(self, until: float | None) -> None:
        """Do what there is to do, after waiting for it until that time, the bell, or for a day."""
        now = time.monotonic()
        self._open_or_shut(now)
        for key, _ in self._selector.select(self._patience(now, until)):
            if isinstance(key.fileobj, Visitor):
                self._drive(key.fileobj)
            elif key.fileobj is self._listener:
                self._accept()
            elif key.fileobj == self._bell:
                os.eventfd_read(self._bell)
            elif self._selector.get_map().get(key.fd) is key:  # one before it may have unwatched it
                key.data(key.fileobj)
        self._mind_the_time(time.monotonic())

    def watch(self, descriptor: int, action: Callable[[int], None]) -> None:
        """Call `action` whenever a descriptor is readable, until `unwatch`."""
        self._selector.register(descriptor, selectors.EVENT_READ, action)

    def unwatch(self, descriptor: int) -> None:
        """Look at a descriptor no longer."""
        self._selector.unregister(descriptor)

    def ring(self) -> None:
        """Let `turn` return; any thread may call this, also when all is closed."""
        with self._bell_lock:
            if self._bell >= 0:
                os.eventfd_write(self._bell, 1)

    def admit(self, visitor: Visitor) -> None:
        """Make a guest of a stranger."""
        del self.strangers[visitor]
        self.guests.add(visitor)

    def give_until(self, visitor: Visitor, deadline: float) -> None:
        """Set the time at which `expire` is called, unless it is set again."""
        visitor.deadline = deadline
        heapq.heappush(self._deadlines, (deadline, next(self._numbers), visitor))
        if len(self._deadlines) > _FEW + 2 * (len(self.strangers) + len(self.guests)):
            self._deadlines = [due for due in self._deadlines if _is_due(due[0], due[2])]
            heapq.heapify(self._deadlines)

    def tell(self, visitor: Visitor, kind: int, payload: bytes) -> None:
        """Send a message beside the talk; if the connection is gone, that is seen in its turn."""
        try:
            visitor.tell(kind, payload)
            self._selector.modify(visitor, visitor.events)
        except OSError as reason:
            log.debug("spawn", "nothing can be told to %s: %s", visitor.address, reason)

    def dismiss(self, visitor: Visitor, why: object) -> None:
        """Close the connection of a visitor that did not keep to the rules."""
        self.dropped += 1
        say = log.warning if self.dropped <= _LOUD else log.debug
        say("spawn", "connection from %s dropped: %s", visitor.address, why)
        self._forget(visitor)

    def close(self) -> None:
        """Close all connections and stop listening."""
        for visitor in (*self.strangers, *self.guests):
            visitor.close()
        self._listener.close()
        self._selector.close()
        with self._bell_lock:
            os.close(self._bell)
            self._bell = -1

    @property
    def _crowded(self) -> bool:
        return len(self.strangers) >= PENDING_MAX

    def _crowd_end(self) -> float:
        return next(iter(self.strangers.values())) + CROWD_TIMEOUT

    def _patience(self, now: float, until: float | None) -> float | None:
        ends = [] if until is None else [until]
        if self._deadlines:
            ends.append(self._deadlines[0][0])
        if self._crowded:
            ends.append(self._crowd_end())
        elif not self._open:
            ends.append(self._pause)
        return min(max(min(ends) - now, 0.0), _LONGEST) if ends else None

    def _open_or_shut(self, now: float) -> None:
        wanted = not self._crowded and now >= self._pause
        if wanted and not self._open:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif self._open and not wanted:
            self._selector.unregister(self._listener)
        self._open = wanted

    def _accept(self) -> None:
        for _ in range(_AT_A_TIME):
            if self._crowded:
                return
            try:
                sock, peer = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as reason:
                log.warning("spawn", "the rendezvous cannot accept a connection: %s", reason)
                self._pause = time.monotonic() + _PAUSE
                return
            now = time.monotonic()
            visitor = Visitor(sock, format_address(*peer[:2]))
            self.strangers[visitor] = now
            self._selector.register(visitor, selectors.EVENT_READ)
            self.give_until(visitor, now + HANDSHAKE_TIMEOUT)
            visitor.begin(self._talk(visitor))

    def _drive(self, visitor: Visitor) -> None:
        try:
            if visitor.turn():
                self._selector.modify(visitor, visitor.events)
            else:
                self._forget(visitor)
        except (Error, OSError, EOFError) as reason:
            # strangers come here, and members with a broken connection; no other is disturbed
            if visitor in self.guests and isinstance(reason, (OSError, EOFError)):
                self._forget(visitor)
            else:
                self.dismiss(visitor, reason)

    def _mind_the_time(self, now: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, _, visitor = heapq.heappop(self._deadlines)
            if not _is_due(deadline, visitor):
                continue
            if visitor in self.guests:
                self._expire(visitor)
            else:
                self.dismiss(visitor, f"no handshake within {HANDSHAKE_TIMEOUT:g} s")
        if self._crowded and now >= self._crowd_end():
            self.dismiss(next(iter(self.strangers)), "no handshake, and others wait at the door")

    def _forget(self, visitor: Visitor) -> None:
        self._selector.unregister(visitor)
        visitor.close()
        if self.strangers.pop(visitor, None) is None:
            self.guests.discard(visitor)
            self._leave(visitor)


def _is_due(deadline: float, visitor: Visitor) -> bool:
    """Return whether that is still the deadline of a visitor that is here."""
    return deadline == visitor.deadline and visitor.fileno() >= 0


def _address(listener: socket.socket) -> str:
    """Return where others go: not to "all interfaces", which would be their own."""
    host, port = listener.getsockname()[:2]
    return format_address(own_address() if host == "0.0.0.0" else host, port)


def _listener(listen: str) -> socket.socket:
    host, port = parse_address(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as reason:
        raise Error(
            f"the rendezvous cannot listen on {listen}: {said_of(host, reason)}"
        ) from reason
