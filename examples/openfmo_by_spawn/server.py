"""A data server that serves: it answers one request after the other."""

from collections.abc import Callable

from mpi4py import MPI

from .messages import ANSWER, ASK, GET, HEAD, MALLOC, PUT, STOP, wait_any


def serve(nap: float, look: Callable[[str], None]) -> None:
    """Let the groups of workers connect, and answer them and the master until he says STOP."""
    parent = MPI.Comm.Get_parent()
    groups = parent.recv(source=0)
    port = MPI.Open_port()
    parent.send(port, 0)
    comms = [MPI.COMM_SELF.Accept(port) for _ in range(groups)]
    MPI.Close_port(port)
    look("joined")
    # Not ANY_SOURCE: MPICH 5.0 over UCX finds no message of an accepted communicator by that.
    clients: list[tuple[MPI.Comm, int]] = [(parent, 0)]
    clients += [(comm, rank) for comm in comms for rank in range(comm.Get_remote_size())]
    heads = [bytearray(HEAD.size) for _ in clients]
    requests = [
        comm.Irecv(head, rank, ASK) for (comm, rank), head in zip(clients, heads, strict=True)
    ]
    memory = bytearray()
    while True:
        number = wait_any(requests, nap)
        comm, rank = clients[number]
        what, offset, size = HEAD.unpack(heads[number])
        if what == STOP:
            break
        _answer(memory, comm, rank, what, offset, size)
        requests[number] = comm.Irecv(heads[number], rank, ASK)
    look("calculated")
    for request in requests:
        if request != MPI.REQUEST_NULL:
            request.Cancel()
            request.Wait()
    for comm in (*comms, parent):
        comm.Disconnect()


def _answer(
    memory: bytearray, comm: MPI.Comm, rank: int, what: int, offset: int, size: int
) -> None:
    if what == MALLOC:
        comm.Send(len(memory).to_bytes(8, "little"), rank, ANSWER)
        memory.extend(bytes(size))
        return
    with memoryview(memory) as everything, everything[offset : offset + size] as piece:
        if what == GET:
            comm.Send([piece, MPI.BYTE], rank, ANSWER)
        elif what == PUT:
            comm.Recv([piece, MPI.BYTE], rank, ASK)
            comm.Send(b"", rank, ANSWER)
