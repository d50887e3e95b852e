"""The other side across nodes: TCP between two hosts as a C program uses it, without the engine.

Each end is a thread of a rank that never takes the interpreter lock, so that it meets the same
neighbours on its host as the progress thread.
"""

import contextlib
import ctypes
import socket
import threading
from collections.abc import Callable

import numpy as np
from harness import NS, Body

import acp_mpi as acp
from rows import native


def _library() -> ctypes.CDLL:
    library = native.library("bare_tcp.c")
    size, place = ctypes.c_size_t, ctypes.c_void_p
    request = [ctypes.c_int, ctypes.c_uint, ctypes.c_uint]
    library.tcp_ask.argtypes = [*request, ctypes.c_int64, ctypes.c_long, place]
    library.tcp_serve.argtypes = request
    library.tcp_pour.argtypes = [ctypes.c_int, place, size, size, place]
    library.tcp_fill.argtypes = [ctypes.c_int, place, size, size]
    return library


def connect(client: int, server: int) -> socket.socket | None:
    """Return the end of a connection on its two ranks, None on the others. Collective."""
    listener = None
    if acp.rank() == server:
        listener = socket.create_server((socket.gethostname(), 0))
    address = acp.bcast(listener.getsockname() if listener else None, root=server)
    connection = None
    if acp.rank() == client:
        connection = socket.create_connection(address)
    if listener:
        with listener:
            connection, _ = listener.accept()
    if connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # as links do
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        connection.setblocking(True)
    return connection


def ask(connection: socket.socket, size: int, answer: int, patience: float) -> Body:
    """Return a loop of round trips with requests and answers of that many bytes, timed in C.

    `patience`: seconds in which it looks for the answer before it sleeps.
    """
    call, look = _library().tcp_ask, round(patience / NS)

    def loop(count: int) -> float:
        spent = ctypes.c_int64()
        native.check(call(connection.fileno(), size, answer, look, count, ctypes.byref(spent)))
        return spent.value * NS

    return loop


def pour(connection: socket.socket, buffer: np.ndarray, piece: int) -> Body:
    """Return a loop of sending a buffer until it has arrived, timed in C."""
    call, address, size = _library().tcp_pour, buffer.ctypes.data, buffer.nbytes

    def loop(count: int) -> float:
        spent = ctypes.c_int64()
        for _ in range(count):
            native.check(call(connection.fileno(), address, size, piece, ctypes.byref(spent)))
        return spent.value * NS

    return loop


def serve(connection: socket.socket, size: int, answer: int) -> None:
    """Answer requests in a thread until the other end closes."""
    _in_thread(connection, _library().tcp_serve, size, answer)


def fill(connection: socket.socket, buffer: np.ndarray, piece: int) -> None:
    """Take what is poured in a thread until the other end closes."""
    _in_thread(connection, _library().tcp_fill, buffer.ctypes.data, buffer.nbytes, piece)


def _in_thread(connection: socket.socket, call: Callable[..., int], *arguments: int) -> None:
    def run() -> None:
        with connection:
            native.check(call(connection.fileno(), *arguments))

    threading.Thread(target=run, daemon=True).start()
