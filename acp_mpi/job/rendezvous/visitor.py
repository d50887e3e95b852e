"""One connection to the rendezvous that never blocks: what a generator asks for is moved.

The generator yields (bytes to send, number of bytes to read) like the steps of `handshake`, and is
answered by these bytes.
"""

from __future__ import annotations

import contextlib
import selectors
import socket

from acp_mpi.engine import _engine
from acp_mpi.job.rendezvous import handshake
from acp_mpi.job.rendezvous.announcement import Announcement
from acp_mpi.job.rendezvous.connection import keep_alive
from acp_mpi.job.rendezvous.messages import CODE_SIZE, HEADER_SIZE, check, message, parse_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TypeAlias

    Talk: TypeAlias = Generator[tuple[bytes, int], bytes, None]

_PIECE = 1 << 16
_AT_ONCE = 8  # pieces


class Visitor:
    """A process that has connected; `waiting`: its announcement, until that is answered."""

    def __init__(self, sock: socket.socket, address: str) -> None:
        self.address = address
        self.deadline = 0.0
        self.waiting: Announcement | None = None
        self._sock = sock
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # it has gone already: that is seen in its turn
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(sock)
        self._talk: Talk | None = None
        self._wanted = 0
        self._in = bytearray()
        self._out: list[memoryview] = []  # none is empty
        self._side: _engine.Handshake | None = None

    def fileno(self) -> int:
        """Return the descriptor for a selector."""
        return self._sock.fileno()

    @property
    def events(self) -> int:
        """The events that a selector is to wait for."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)

    @property
    def unsent(self) -> bool:
        """Whether the system has not taken all that is to be said."""
        return bool(self._out)

    def begin(self, talk: Talk) -> None:
        """Start to talk as the generator says."""
        self._talk = talk
        out, self._wanted = next(talk)
        self.say(out)

    def say(self, *pieces: bytes) -> None:
        """Send now what can be sent, the rest when a selector says so; no piece is copied."""
        self._out += (memoryview(piece) for piece in pieces if piece)
        self._send()

    def prove(self, side: _engine.Handshake) -> Talk:
        """Go through a handshake as this side, whose keys the messages have: part of a talk."""
        self._side = side
        yield from handshake.steps(side)

    def hear(self) -> Generator[tuple[bytes, int], bytes, tuple[int, bytes]]:
        """Return the kind and the payload of the next message: part of a talk."""
        assert self._side is not None
        header = yield b"", HEADER_SIZE
        kind, length = parse_header(header)
        payload = (yield b"", length) if length else b""
        check(self._side, header, payload, (yield b"", CODE_SIZE))
        return kind, payload

    def tell(self, kind: int, payload: bytes) -> None:
        """Send a message; the other side has proved itself."""
        assert self._side is not None
        self.say(*message(self._side, kind, payload))

    def turn(self) -> bool:
        """Move what can be moved; return whether the talk goes on.

        Raises what the generator raises, and EOFError and OSError when the connection ends.
        """
        self._send()
        with contextlib.suppress(BlockingIOError):
            while True:
                data = self._sock.recv(_PIECE)
                if not data:
                    raise EOFError("the other side closed the connection")
                self._in += data
                if not self._step():
                    return False
        return True

    def close(self) -> None:
        """End the talk and the connection."""
        if self._talk is not None:
            self._talk.close()
        self._sock.close()

    def _step(self) -> bool:
        assert self._talk is not None
        while len(self._in) >= self._wanted:
            data = bytes(self._in[: self._wanted])
            del self._in[: self._wanted]
            try:
                out, self._wanted = self._talk.send(data)
            except StopIteration:
                return False
            if out:
                self.say(out)
        return True

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._out:
                sent = self._sock.sendmsg(self._out[:_AT_ONCE])
                while self._out and sent >= len(self._out[0]):
                    sent -= len(self._out.pop(0))
                if sent:
                    self._out[0] = self._out[0][sent:]
