"""A connection to the rendezvous, made without `socket`.

Of Python's two halves only the one in C: the other takes 0.3 MB of heap, as much as all the rest
that a process without MPI needs of this library.
"""

from __future__ import annotations

import _socket
import errno
import time

_GLANCE = 0.01  # s, for an address after its time is up
_IDLE, _BETWEEN, _PROBES = 30, 10, 3  # s of silence, s between probes, and number of these


class Connection(_socket.socket):
    """A stream; `with` closes it."""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()


def keep_alive(sock: _socket.socket) -> None:
    """Have the system ask the other end whether it is there, for a host may vanish without a word.

    A member that waits for others on such a connection learns of its end within a minute.
    """
    sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)
    sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPIDLE, _IDLE)
    sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPINTVL, _BETWEEN)
    sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPCNT, _PROBES)


def dial(where: tuple[str, int], timeout: float) -> Connection:
    """Connect to host and port, trying each address of the host; raises OSError.

    An address that leads nowhere leaves time for the others. If a listener may come yet, that is
    the error that is raised, and not that another address is out of reach.
    """
    failed: OSError | None = None
    end = time.monotonic() + timeout
    host, port = where
    name = host.encode()  # text goes through the codec for international names: 0.3 MB more
    found = _socket.getaddrinfo(name, port, 0, _socket.SOCK_STREAM)
    for index, (family, kind, protocol, _, address) in enumerate(found):
        share = (end - time.monotonic()) / (len(found) - index)
        try:
            return _call(Connection(family, kind, protocol), address, max(share, _GLANCE))
        except OSError as reason:
            if not isinstance(failed, (ConnectionRefusedError, TimeoutError)):
                failed = reason
    raise failed or OSError("the host has no address")


def _call(connection: Connection, address: tuple[object, ...], timeout: float) -> Connection:
    try:
        connection.settimeout(timeout)
        connection.connect(address)
        if connection.getsockname() == connection.getpeername():
            # without a listener, the system gave this end the very port that it called
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        keep_alive(connection)
        # a short message after another would wait 40 ms for the other side's acknowledgement
        connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
    except OSError:
        connection.close()
        raise
    return connection
