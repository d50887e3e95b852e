"""Nobody who should not be there gets into a rendezvous, or in its way."""

import contextlib
import os
import random
import struct
from types import SimpleNamespace

import pytest
from arriving import SECRET, announced, call, prove, row, rows, whole

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import announcement, reception
from acp_mpi.job.rendezvous.connector import join
from acp_mpi.job.rendezvous.server import Server


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (
            ("a", 2, True, whole("x", 2)),
            ("a", 2, True, whole("y", 2)),
            "a group 'a' has come already",
        ),
        (
            ("a", 2, False, rows("x", 0)),
            ("a", 2, True, whole("y", 2)),
            "a group 'a' has come already",
        ),
        (
            ("a", 2, False, rows("x", 1)),
            ("a", 2, False, rows("y", 1)),
            "rank 1 of group 'a' has come",
        ),
        (("a", 2, False, rows("x", 1)), ("a", 3, False, rows("y", 0)), "has 2 ranks as announced"),
    ],
)
def test_a_second_claim_is_refused_and_the_first_stands(pool, first, second, words):
    with Server(SECRET, 2) as server:
        one = pool.submit(join, server.address, SECRET, *first)
        announced(server, 1)
        with pytest.raises(Error, match=words) as caught:
            join(server.address, SECRET, *second)
        assert f"pid {os.getpid()}" in str(caught.value)  # who was first
        name, size, has_mpi, ranks = first
        rest = [
            pool.submit(join, server.address, SECRET, name, size, has_mpi, rows("x", rank))
            for rank in range(size)
            if rank not in dict(ranks)
        ]
        join(server.address, SECRET, "b", 1, False, whole("b", 1))
        table = one.result()
        assert [table.row(slot) for slot in table.group("a").slots] == [row("x", 0), row("x", 1)]
        assert all(r.result().pack() == table.pack() for r in rest)


@pytest.mark.parametrize(
    ("expected", "late", "words"),
    [
        ({"a": 1, "b": 1}, ("c", 1), "no group 'c' belongs to this job: expected 'a', 'b'"),
        ({"a": 1, "b": 1}, ("b", 2), "group 'b' comes with 2 ranks: expected 1"),
    ],
)
def test_a_group_that_is_not_expected_is_refused(expected, late, words):
    name, size = late
    with Server(SECRET, expected) as server, pytest.raises(Error, match=words):
        join(server.address, SECRET, name, size, True, whole("x", size))


@pytest.mark.parametrize(
    ("name", "other", "words"),
    [
        ("_engine", SimpleNamespace(LAYOUT=0), "'b' runs .*layout 0, .* 'a' from .*layout [1-9]"),
        ("SOURCES", "0" * 16, "'b' runs acp_mpi .*sources 0000.* 'a' from .*sources "),
    ],
)
def test_a_group_of_another_version_is_refused(pool, monkeypatch, name, other, words):
    with Server(SECRET, 2) as server:
        first = pool.submit(join, server.address, SECRET, "a", 1, False, whole("a", 1))
        announced(server, 1)
        with monkeypatch.context() as patch:
            patch.setattr(announcement, name, other)
            with pytest.raises(Error, match=words):
                join(server.address, SECRET, "b", 1, False, whole("b", 1))
        monkeypatch.setattr(announcement, "__version__", "another release")  # same layout
        monkeypatch.setattr(announcement, "SOURCES", "and has other sources")
        join(server.address, SECRET, "b", 1, False, whole("b", 1))
        first.result()


def test_one_group_too_many_is_refused(pool):
    with Server(SECRET, 1) as server:
        first = pool.submit(join, server.address, SECRET, "a", 2, False, rows("a", 0))
        announced(server, 1)
        with pytest.raises(Error, match="no more than 1 groups belong to this job"):
            join(server.address, SECRET, "b", 1, False, whole("b", 1))
        join(server.address, SECRET, "a", 2, False, rows("a", 1))
        first.result()


def test_another_secret_is_refused_and_disturbs_nobody(pool, caplog):
    with Server(SECRET, 2) as server:
        one = pool.submit(join, server.address, SECRET, "a", 1, False, whole("a", 1))
        with pytest.raises(PermissionError, match="another secret"):
            join(server.address, bytes(32), "b", 1, False, whole("b", 1))
        join(server.address, SECRET, "b", 1, False, whole("b", 1))
        assert len(one.result()) == 2
        server.wait(20)
        assert server.statistics().dropped == 1
    assert "another secret" in caplog.text
    assert SECRET.hex() not in caplog.text


def test_garbage_on_the_port_is_dropped_at_once_and_disturbs_nobody(pool):
    source = random.Random(11)
    with Server(SECRET, 2) as server:
        one = pool.submit(join, server.address, SECRET, "a", 1, False, whole("a", 1))
        for start in (
            b"GET / HTTP/1.1\r\n",
            b"ACPQ",
            b"ACPH\x01",
            b"ACPH\x09\x02\x09",
            b"\x16\x03\x01",
            *(source.randbytes(source.randrange(1, 300)) for _ in range(100)),
        ):
            with call(server) as sock:
                sock.sendall(start)
                with contextlib.suppress(ConnectionError):
                    while sock.recv(1000):  # until it closes
                        pass
        join(server.address, SECRET, "b", 1, False, whole("b", 1))
        assert len(one.result()) == 2


def test_strangers_who_keep_silent_are_dropped_and_everybody_else_gets_in(pool, monkeypatch):
    monkeypatch.setattr(reception, "PENDING_MAX", 4)
    monkeypatch.setattr(reception, "HANDSHAKE_TIMEOUT", 0.2)
    with Server(SECRET, 1) as server, contextlib.ExitStack() as strangers:
        for _ in range(12):
            strangers.enter_context(call(server))
        assert len(join(server.address, SECRET, "a", 1, False, whole("a", 1))) == 1
        assert server.statistics().pending <= 4


def test_a_crowd_that_keeps_silent_holds_nobody_up_for_long(monkeypatch):
    monkeypatch.setattr(reception, "PENDING_MAX", 4)
    monkeypatch.setattr(reception, "CROWD_TIMEOUT", 0.01)  # and the others may take 5 s
    with Server(SECRET, 1) as server, contextlib.ExitStack() as strangers:
        for _ in range(200):
            strangers.enter_context(call(server))
        assert len(join(server.address, SECRET, "a", 1, False, whole("a", 1))) == 1
        assert server.statistics().dropped >= 196


@pytest.mark.slow
def test_ten_thousand_connections_disturb_nobody(pool):
    source = random.Random(5)
    with Server(SECRET, 2) as server, contextlib.ExitStack() as silent:
        one = pool.submit(join, server.address, SECRET, "a", 1, False, whole("a", 1))
        for index in range(10_000):
            sock = call(server)
            if index % 40 == 0:
                silent.enter_context(sock)
                continue
            with sock, contextlib.suppress(ConnectionError):
                sock.sendall(source.randbytes(source.randrange(1, 200)))
        join(server.address, SECRET, "b", 1, False, whole("b", 1))
        assert len(one.result()) == 2
        server.wait(20)


def test_a_member_that_talks_nonsense_is_dropped(pool):
    with Server(SECRET, 1) as server:
        for nonsense in (
            b"\xff" * 8,
            struct.pack("<B3xI", 1, 4) + b"oops" + bytes(16),
            struct.pack("<B3xI", 2, 0) + bytes(16),
            struct.pack("<B3xI", 1, 0) + bytes(16),
        ):
            with call(server) as sock:
                prove(sock)
                sock.sendall(nonsense)
                assert sock.recv(100) == b""
        assert len(join(server.address, SECRET, "a", 1, False, whole("a", 1))) == 1
