"""The same body on mpi4py's communicator and on ours, with the same results."""

import numpy as np
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.mpi

MPI = pytest.importorskip("mpi4py.MPI")


class Theirs:
    """mpi4py's COMM_WORLD, in our words."""

    any_source, any_tag = MPI.ANY_SOURCE, MPI.ANY_TAG
    Truncated = MPI.Exception

    def __init__(self):
        self.comm = MPI.COMM_WORLD
        self.rank, self.size = self.comm.rank, self.comm.size

    def isend(self, x, dest, tag=0):
        return self.comm.isend(x, dest, tag)

    def recv(self, source, tag):
        status = MPI.Status()
        got = self.comm.recv(None, source, tag, status)
        return got, status.source, status.tag

    def irecv(self, source, tag):
        return self.comm.irecv(1 << 16, source, tag)

    def isend_bytes(self, x, dest, tag=0):
        return self.comm.Isend(x, dest, tag)

    def recv_bytes(self, room, source, tag):
        status = MPI.Status()
        self.comm.Recv(room, source, tag, status)
        return status.source, status.tag, status.Get_count(MPI.BYTE)

    def irecv_bytes(self, room, source, tag):
        return self.comm.Irecv(room, source, tag)

    def sendrecv(self, x, dest, source):
        return self.comm.sendrecv(x, dest, 3, None, source, 3)

    def probe(self, source, tag):
        status = MPI.Status()
        self.comm.Probe(source, tag, status)
        return status.source, status.tag, status.Get_count(MPI.BYTE)

    def mprobe_bytes(self, source, tag, room):
        status = MPI.Status()
        self.comm.Mprobe(source, tag, status).Recv(room)
        return status.source, status.tag

    def iprobe(self, source, tag):
        return self.comm.iprobe(source, tag)

    def waitall(self, requests):
        return MPI.Request.waitall(requests)

    def waitany(self, requests):
        return MPI.Request.Waitany(requests)

    def barrier(self):
        self.comm.Barrier()


class Ours:
    any_source, any_tag = acp.ANY_SOURCE, acp.ANY_TAG
    Truncated = acp.TruncationError
    isend = isend_bytes = staticmethod(acp.isend)
    waitall = staticmethod(acp.waitall)

    def __init__(self):
        self.rank, self.size = acp.rank(), acp.procs()

    def recv(self, source, tag):
        status = acp.Status()
        got = acp.recv(None, source, tag, status)
        return got, status.source, status.tag

    def irecv(self, source, tag):
        return acp.irecv(None, source, tag)

    def recv_bytes(self, room, source, tag):
        status = acp.Status()
        acp.recv(room, source, tag, status)
        return status.source, status.tag, status.count()

    def irecv_bytes(self, room, source, tag):
        return acp.irecv(room, source, tag)

    def sendrecv(self, x, dest, source):
        return acp.sendrecv(x, dest, 3, None, source, 3)

    def probe(self, source, tag):
        status = acp.probe(source, tag)
        return status.source, status.tag, status.size

    def mprobe_bytes(self, source, tag, room):
        message = acp.mprobe(source, tag)
        message.recv(room)
        return message.status.source, message.status.tag

    def iprobe(self, source, tag):
        return acp.iprobe(source, tag) is not None

    def waitany(self, requests):
        return acp.waitany(requests)[0]

    def barrier(self):
        acp.barrier(range(acp.procs()))


def neighbours(c):
    return (c.rank + 1) % c.size, (c.rank - 1) % c.size


def objects(c):
    right, left = neighbours(c)
    things = [None, 1, "text", {"a": [1.5]}, b"bytes", (1, 2)]
    sends = [c.isend(x, right, tag) for tag, x in enumerate(things)]
    got = [c.recv(left, tag) for tag in range(len(things))]
    c.waitall(sends)
    return got


def posted_objects(c):
    right, left = neighbours(c)
    receives = [c.irecv(left, tag) for tag in range(5)]
    sends = [c.isend((c.rank, tag), right, tag) for tag in (4, 2, 0, 1, 3)]
    got = c.waitall(receives)
    c.waitall(sends)
    return got


def arrays_of_all_sizes(c):
    right, left = neighbours(c)
    results = []
    for size in (0, 1, 1000, 200_000):
        room = np.zeros(size)
        send = c.isend_bytes(np.arange(float(size)) + c.rank, right, 2)
        results.append(c.recv_bytes(room, left, 2))
        results.append(float(room.sum()))
        c.waitall([send])
    return results


def order_with_wildcards(c):
    right, _ = neighbours(c)
    rooms = [np.zeros(1, "i8") for _ in range(6)]
    tags = [c.any_tag, 1, c.any_tag, 2, 1, c.any_tag]
    receives = [c.irecv_bytes(room, c.any_source, t) for room, t in zip(rooms, tags, strict=True)]
    c.barrier()
    sends = [c.isend_bytes(np.array([i]), right, tag) for i, tag in enumerate((1, 1, 2, 2, 1, 1))]
    c.waitall(receives)
    c.waitall(sends)
    return [int(room[0]) for room in rooms]


def unexpected_with_wildcards(c):
    right, left = neighbours(c)
    sends = [c.isend(i, right, i % 3) for i in range(12)]
    got = [c.recv(left, t) for t in (2, c.any_tag, 1, 1, c.any_tag, 0, 2, 2, *[c.any_tag] * 4)]
    c.waitall(sends)
    return got


def probes(c):
    right, left = neighbours(c)
    before = c.iprobe(left, 77)
    sends = [c.isend_bytes(np.zeros(n, "u1"), right, tag) for tag, n in ((5, 30), (4, 100))]
    first, second = c.probe(left, 4), c.probe(left, c.any_tag)
    room = np.zeros(100, "u1")
    taken = c.mprobe_bytes(left, 5, room)
    rest = c.recv_bytes(room, left, c.any_tag)
    c.waitall(sends)
    return before, first, second, taken, rest


def truncation(c):
    right, left = neighbours(c)
    room = np.zeros(5, "u1")
    send = c.isend_bytes(np.arange(10, dtype="u1"), right, 1)
    try:
        c.recv_bytes(room, left, 1)
        raised = False
    except c.Truncated:
        raised = True
    c.waitall([send])
    gone = not c.iprobe(left, 1)
    return raised, gone


def any_of_many(c):
    right, left = neighbours(c)
    receives = [c.irecv_bytes(np.zeros(1, "i8"), left, tag) for tag in range(6)]
    sends = [c.isend_bytes(np.array([tag]), right, tag) for tag in range(6)]
    done = sorted(c.waitany(receives) for _ in receives)
    c.waitall(sends)
    return done


def rotation(c):
    right, left = neighbours(c)
    x = [c.rank]
    for _ in range(c.size):
        x = [*c.sendrecv(x, right, left), c.rank]
    return x


def everyone_to_everyone(c):
    sends = [c.isend((c.rank, to), to, 8) for to in range(c.size)]
    got = sorted(c.recv(c.any_source, 8) for _ in range(c.size))
    c.waitall(sends)
    return got


BODIES = [
    objects, posted_objects, arrays_of_all_sizes, order_with_wildcards, unexpected_with_wildcards,
    probes, truncation, any_of_many, rotation, everyone_to_everyone,
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_the_same_body_does_the_same(body):
    theirs = body(Theirs())
    acp.sync()
    assert body(Ours()) == theirs
