"""Groups that come to a rendezvous, as tests make them."""

import os
import socket

from guard import Guard

from acp_mpi.job.rendezvous import handshake
from acp_mpi.job.rendezvous.address import parse_address
from acp_mpi.job.rendezvous.messages import Kind, message
from acp_mpi.job.rendezvous.secret import job_id

SECRET = bytes(range(32))


def row(tag, rank):
    return f"{tag} {rank}".encode().ljust(64, b"\0")


def rows(tag, *ranks):
    return [(rank, row(tag, rank)) for rank in ranks]


def whole(tag, size):
    return rows(tag, *range(size))


def announced(server, ranks):
    """Wait until so many ranks are in."""
    guard = Guard(40.0)
    while sum(len(group.ranks) for group in server.arrivals()) < ranks:
        assert not guard.over, server.arrivals()
        os.sched_yield()


def run_out_of_time(server):
    """Have the time of a rendezvous be over."""
    server._end = 0.0
    server._door.ring()


def run_out_of_patience(server):
    """Have the time of the one member be over that has come."""
    (guest,) = server._door.guests
    server._door.give_until(guest, 0.0)
    server._door.ring()


def call(door):
    """Connect to what listens there."""
    return socket.create_connection(parse_address(door.address), 20)


def prove(sock):
    """Show that this one has the secret; return this side of the connection."""
    return handshake.client(
        sock, SECRET, job_id(SECRET), role=handshake.Role.MEMBER, deadline=float("1e9")
    )


def announce(sock, announcement):
    """Join by hand and say nothing more."""
    side = prove(sock)
    sock.sendall(b"".join(message(side, Kind.ANNOUNCE, announcement.pack())))
    return side
