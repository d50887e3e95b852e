"""Queries of a running `macprun` and their answers: abstract sockets, for the same user only."""

import contextlib
import json
import os
import re
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

from acp_mpi.errors import Error

_NAME = "acp_mpi.macprun."
_TIMEOUT = 5.0  # s for an answer
_LIMIT = 1 << 26
_CREDENTIALS = struct.Struct("3i")


class Control:
    """Answers one question a connection. `answer(word)` returns something for JSON."""

    def __init__(self, keeper: int, answer: Callable[[str], Any]) -> None:
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # the name cannot be taken before: clients read it in /proc/net/unix
        self._socket.bind(f"\0{_NAME}{keeper}.{os.urandom(16).hex()}")
        self._socket.listen()
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that is readable when a query comes."""
        return self._socket.fileno()

    def serve(self) -> None:
        """Answer waiting clients; strangers are sent away."""
        with contextlib.suppress(OSError):
            connection, _ = self._socket.accept()
            with connection:
                connection.settimeout(1.0)
                if _user(connection) == os.geteuid():
                    word = connection.recv(64).decode(errors="replace").strip()
                    connection.sendall(json.dumps(self._answer(word)).encode())

    def close(self) -> None:
        """Answer no more."""
        self._socket.close()


def jobs() -> list[int]:
    """Return the macprun processes of this user on this host, by number."""
    found = set(re.findall(rf"@{re.escape(_NAME)}(\d+)\.", _sockets()))
    return sorted(pid for pid in map(int, found) if _is_mine(pid))


def ask(pid: int, word: str) -> Any:
    """Ask a macprun process and return its answer; Error if there is none of this user."""
    with _connect(pid) as connection:
        try:
            connection.sendall(word.encode() + b"\n")
            return json.loads(b"".join(_chunks(connection)))
        except (OSError, ValueError) as reason:
            raise Error(f"macprun {pid} does not answer: {reason}") from None


def _sockets() -> str:
    with open("/proc/net/unix", errors="replace") as sockets:
        return sockets.read()


def _connect(pid: int) -> socket.socket:
    for name in re.findall(rf"@({re.escape(_NAME)}{pid}\..*)$", _sockets(), re.MULTILINE):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_TIMEOUT)
        try:
            connection.connect(f"\0{name}")
            if _user(connection) == os.geteuid():
                return connection
        except OSError:
            pass
        connection.close()
    raise Error(f"process {pid} is not a macprun of this user on this host; see macprun status")


def _is_mine(pid: int) -> bool:
    try:
        _connect(pid).close()
    except Error:
        return False
    return True


def _user(connection: socket.socket) -> int:
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[1])


def _chunks(connection: socket.socket) -> Iterator[bytes]:
    size = 0
    while chunk := connection.recv(1 << 16):
        size += len(chunk)
        if size > _LIMIT:
            raise ValueError(f"more than {_LIMIT} bytes")
        yield chunk
