"""A connection to the rendezvous, made without `socket`.

Of Python's two halves only the one in C: the other takes 0.3 MB of heap, as much as all the rest
that a process without MPI needs of this library.
"""

from __future__ import annotations

import _socket


class Connection(_socket.socket):
    """A stream; `with` closes it."""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()


def dial(where: tuple[str, int], timeout: float) -> Connection:
    """Connect to host and port, trying each address of the host; raises OSError."""
    failed = OSError("the host has no address")
    host, port = where
    name = host.encode()  # text goes through the codec for international names: 0.3 MB more
    for family, kind, protocol, _, address in _socket.getaddrinfo(
        name, port, 0, _socket.SOCK_STREAM
    ):
        connection = Connection(family, kind, protocol)
        try:
            connection.settimeout(timeout)
            connection.connect(address)
            # a short message after another would wait 40 ms for the other side's acknowledgement
            connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            return connection
        except OSError as reason:
            connection.close()
            failed = reason
    raise failed
