"""The other way over TCP: one thread that selects and reads, in C (`select_read.c`)."""

import ctypes
import socket
from typing import Any

import numpy as np
from mpi4py import MPI
from rows import native

from npb.transport import Pairwise


def _library() -> ctypes.CDLL:
    library = native.library("select_read.c")
    place, rank, tag, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_uint64
    library.sockets_open.restype = library.sockets_irecv.restype = place
    library.sockets_open.argtypes = [rank, rank, place]
    library.sockets_send.argtypes = [place, rank, tag, place, size]
    library.sockets_irecv.argtypes = [place, rank, tag, place, size]
    library.sockets_wait.argtypes = [place, place]
    library.sockets_close.argtypes = [place]
    return library


class BySelect(Pairwise):
    """A socket to each rank; nothing moves but inside a call."""

    name = "select and read"

    def __init__(self, comm: MPI.Intracomm, buffers: int = 0, address: str = "127.0.0.1") -> None:
        """Connect all ranks; `buffers`: bytes of each socket's buffers, 0: as the system has it."""
        self.rank, self.size = comm.rank, comm.size
        self._library = _library()
        fds = (ctypes.c_int * self.size)()
        for rank, end in _mesh(comm, buffers, address).items():
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.setblocking(False)
            fds[rank] = end.detach()
        self._all = self._library.sockets_open(self.rank, self.size, fds)
        if not self._all:
            raise OSError("more sockets than select can watch")

    def send(self, array: np.ndarray, dest: int, tag: int) -> None:
        """Send an array, which is free again on return."""
        native.check(
            self._library.sockets_send(self._all, dest, tag, array.ctypes.data, array.nbytes)
        )

    def irecv(self, array: np.ndarray, source: int, tag: int) -> Any:
        """Begin to receive into an array."""
        request = self._library.sockets_irecv(
            self._all, source, tag, array.ctypes.data, array.nbytes
        )
        if not request:
            raise MemoryError("no memory for a receive")
        return request

    def wait(self, request: Any) -> None:
        """Wait until it has come."""
        native.check(self._library.sockets_wait(self._all, request))

    def close(self) -> None:
        """End it. Collective: what is on its way is received first."""
        self.allreduce(np.zeros(1, np.int64))
        self._library.sockets_close(self._all)


def _mesh(comm: MPI.Intracomm, buffers: int, address: str) -> dict[int, socket.socket]:
    """Return a connection to each rank: those below are called, those above call."""
    ends = {}
    listener = socket.socket()
    _size(listener, buffers)
    listener.bind((address, 0))
    listener.listen(comm.size)
    with listener:
        places = comm.allgather(listener.getsockname())
        for rank in range(comm.rank):
            end = socket.socket()
            _size(end, buffers)
            end.connect(places[rank])
            end.sendall(comm.rank.to_bytes(4, "little"))
            ends[rank] = end
        for _ in range(comm.rank + 1, comm.size):
            end, _place = listener.accept()
            ends[int.from_bytes(end.recv(4, socket.MSG_WAITALL), "little")] = end
    return ends


def _size(end: socket.socket, buffers: int) -> None:
    if buffers:  # before the connection, which agrees on a window
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
