"""Garbage on the ports of links and of the rendezvous disturbs nobody."""

import contextlib
import os
import random
import socket
from pathlib import Path

import launch
import pytest

import acp_mpi as acp
from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.server import Server

PIECES = [b"", b"\x00", b"GET / HTTP/1.0\r\n\r\n", b"ACP", b"ACPH\x02" + bytes(20), bytes(5000)]


def listening_ports():
    """Return the TCP ports on which this process listens."""
    sockets = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            sockets.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    rows = []
    for table in ("tcp", "tcp6"):
        rows += Path("/proc/net", table).read_text().splitlines()[1:]
    fields = (row.split() for row in rows)
    return [int(f[1].rpartition(":")[2], 16) for f in fields
            if f[3] == "0A" and f"socket:[{f[9]}]" in sockets]  # fmt: skip


def shout(port, count=20):
    """Send rubbish over many connections; return them, some still open and silent."""
    noise, connections = random.Random(port), []
    for index in range(count):
        connection = socket.create_connection(("127.0.0.1", port), 10)
        piece = PIECES[index] if index < len(PIECES) else noise.randbytes(noise.randrange(300))
        with contextlib.suppress(OSError):  # it may have been refused already
            connection.sendall(piece)
        if index % 2:
            connection.close()
        else:
            connections.append(connection)
    return connections


def work_under_noise():
    acp.init()
    rank, procs = acp.rank(), acp.procs()
    right, size = (rank + 1) % procs, 300_000
    array = acp.zeros(size, "u1")
    places = acp.allgather(acp.query_ga(array))
    ports = acp.allgather(listening_ports())
    assert all(ports), "every rank that has links listens"
    open_ones = []
    for step in range(1, 4):
        if rank == 0:
            for port in {port for some in ports for port in some}:
                open_ones += shout(port)
        acp.put(places[right], bytes([step]) * size)
        acp.fetch_add8(acp.query_starter_ga(right), 1)
        acp.sync()
        assert (array == step).all()
        acp.sync()
    assert acp.fetch_add8(acp.query_starter_ga(rank), 0) == 3
    for connection in open_ones:
        connection.close()
    acp.finalize()


@pytest.mark.parametrize("road", ["link", "nodes"])
def test_strangers_on_the_ports_of_links_disturb_nobody(without_mpi, road):
    for job in without_mpi(3, launch.program(work_under_noise), launch.ROADS[road]):
        assert job.wait() == 0, job.output


def listen_on_loopback_only():
    acp.init()
    wanted = set(listening_ports())
    assert wanted
    addresses = set()
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address, port = row.split()[1].split(":")
        if int(port, 16) in wanted and row.split()[3] == "0A":
            addresses.add(address)
    assert addresses <= {"0100007F"}, f"listens on {addresses}"
    acp.finalize()


def test_a_job_on_one_host_listens_on_loopback_only(passes):
    passes(launch.program(listen_on_loopback_only), {"ACP_MPI": "0", "ACP_PATH": "link"})


def join_and_sum():
    with acp.init():
        acp.fetch_add8(acp.query_starter_ga(0), acp.rank() + 1)
        acp.sync()
        total = acp.fetch_add8(acp.query_starter_ga(0), 0)
        assert total == acp.procs() * (acp.procs() + 1) // 2


def test_strangers_at_the_rendezvous_disturb_nobody(start, tmp_path):
    path = tmp_path / "secret"
    with Server(secret.create(path), {"alone": 3}) as server:
        port = int(server.address.rpartition(":")[2])
        connections = shout(port)
        env = {
            "ACP_MPI": "0",
            "ACP_RENDEZVOUS": server.address,
            "ACP_SECRET_FILE": str(path),
            "ACP_GROUP": "alone",
            "ACP_GROUP_SIZE": "3",
        }
        jobs = [
            start(launch.program(join_and_sum), env | {"ACP_GROUP_RANK": str(rank)})
            for rank in range(3)
        ]
        connections += shout(port)
        for job in jobs:
            assert job.wait() == 0, job.output
        for connection in connections:
            connection.close()


def be_refused():
    with pytest.raises(PermissionError, match="secret"):
        acp.init()
    assert not acp.is_initialized()


@pytest.mark.smoke
def test_a_process_with_another_secret_is_refused(passes, meeting, tmp_path):
    other = tmp_path / "other"
    secret.create(other)
    passes(
        launch.program(be_refused),
        meeting(2) | {"ACP_SECRET_FILE": str(other), "ACP_MPI": "0", "ACP_GROUP": "stranger"},
    )


def miss_the_others():
    with pytest.raises(TimeoutError, match="missing"):
        acp.init()
    assert not acp.is_initialized()


def test_who_waits_in_vain_is_told_who_is_missing(passes, meeting):
    passes(
        launch.program(miss_the_others),
        meeting({"early": 1, "late": 1})
        | {"ACP_JOIN_TIMEOUT": "3", "ACP_MPI": "0", "ACP_GROUP": "early"},
    )
