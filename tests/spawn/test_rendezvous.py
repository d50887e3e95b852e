"""Groups find each other through the rendezvous, and nobody else gets in or in the way."""

import contextlib
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import acp_mpi.errors
from acp_mpi.errors import Error
from acp_mpi.spawn.rendezvous import handshake, reception, secret
from acp_mpi.spawn.rendezvous.address import format_address, own_address, parse_address
from acp_mpi.spawn.rendezvous.announcement import Announcement
from acp_mpi.spawn.rendezvous.connector import join
from acp_mpi.spawn.rendezvous.membership import Membership
from acp_mpi.spawn.rendezvous.messages import Kind, message
from acp_mpi.spawn.rendezvous.roll import Roll
from acp_mpi.spawn.rendezvous.server import Server

SECRET = bytes(range(32))


def row(tag, rank):
    return f"{tag} {rank}".encode().ljust(64, b"\0")


def rows(tag, *ranks):
    return [(rank, row(tag, rank)) for rank in ranks]


def whole(tag, size):
    return rows(tag, *range(size))


@pytest.fixture
def pool():
    with ThreadPoolExecutor(32) as executor:
        yield executor


def announced(server, ranks):
    """Wait until so many ranks are in."""
    end = time.monotonic() + 20
    while sum(len(group.ranks) for group in server.arrivals()) < ranks:
        assert time.monotonic() < end, server.arrivals()
        os.sched_yield()


# ---- All is well ---------------------------------------------------------------------------


def test_two_groups_receive_the_same_table(pool):
    with Server(SECRET, 2) as server:
        b = pool.submit(join, server.address, SECRET, "b", 3, False, whole("b", 3))
        a = join(server.address, SECRET, "a", 2, True, whole("a", 2))
        assert a.pack() == b.result().pack() == server.wait(20).pack()
    assert [(g.name, g.offset, g.size, g.has_mpi) for g in a.groups] == [
        ("a", 0, 2, True),
        ("b", 2, 3, False),
    ]
    assert [a.row(slot) for slot in a.group("b").slots] == [row("b", r) for r in range(3)]


def test_named_groups_keep_their_order(pool):
    with Server(SECRET, {"z": 1, "a": 2}) as server:
        later = pool.submit(join, server.address, SECRET, "a", 2, True, whole("a", 2))
        table = join(server.address, SECRET, "z", 1, False, whole("z", 1))
        later.result()
        assert [group.name for group in table.groups] == ["z", "a"]


def test_processes_without_mpi_come_one_by_one_in_any_order(pool):
    order = list(range(20))
    random.Random(3).shuffle(order)
    with Server(SECRET, 1) as server:
        joining = [
            pool.submit(join, server.address, SECRET, "g", 20, False, rows("g", rank))
            for rank in order
        ]
        tables = [j.result().pack() for j in joining]
        assert server.wait(20).rows == b"".join(row("g", rank) for rank in range(20))
    assert len(set(tables)) == 1


def test_a_member_may_come_before_the_rendezvous(pool):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = format_address(*holder.getsockname())
        early = pool.submit(join, address, SECRET, "a", 1, False, whole("a", 1), 20.0)
        stranger, _ = holder.accept()  # it has called: too early for any rendezvous
        stranger.close()
    with Server(SECRET, 1, listen=address) as server:
        assert len(early.result()) == 1
        server.wait(20)


def test_the_server_ends_when_all_have_left_and_close_is_idempotent(pool):
    server = Server(SECRET, 1)
    join(server.address, SECRET, "a", 1, False, whole("a", 1))
    server.wait(20)
    server.close()
    server.close()
    assert server.closed
    assert "closed" in repr(server)


# ---- Somebody is missing -------------------------------------------------------------------


def test_the_deadline_says_who_came_from_where_and_who_is_missing(pool):
    with Server(SECRET, {"ocean": 2, "ice": 4, "land": 3}, timeout=0.5) as server:
        members = [
            pool.submit(join, server.address, SECRET, "ocean", 2, True, whole("ocean", 2)),
            pool.submit(join, server.address, SECRET, "ice", 4, False, rows("ice", 0)),
            pool.submit(join, server.address, SECRET, "ice", 4, False, rows("ice", 2)),
        ]
        with pytest.raises(TimeoutError) as caught:
            server.wait(20)
        said = str(caught.value)
        for words in (
            "group 'ocean' of 2 (complete)",
            "group 'ice' of 4 (ranks 0, 2)",
            socket.gethostname(),
            f"pid {os.getpid()}",
            "127.0.0.1",
            "missing: ranks 1, 3 of group 'ice', all 3 ranks of group 'land'",
        ):
            assert words in said
        for member in members:
            with pytest.raises(TimeoutError, match=re.escape("all 3 ranks of group 'land'")):
                member.result()


def test_a_member_out_of_patience_is_told_who_is_missing_and_may_come_again(pool):
    with Server(SECRET, 2) as server:
        with pytest.raises(TimeoutError, match="1 more group, not announced yet"):
            join(server.address, SECRET, "a", 1, False, whole("a", 1), timeout=0.2)
        with pytest.raises(TimeoutError, match="left within 0 s; came: nobody; missing: 2 more"):
            server.wait(0)
        again = pool.submit(join, server.address, SECRET, "a", 1, False, whole("a", 1))
        assert len(join(server.address, SECRET, "b", 1, False, whole("b", 1))) == 2
        again.result()


def test_a_member_that_dies_while_it_waits_can_be_replaced(pool):
    with Server(SECRET, {"g": 2}) as server:
        with socket.create_connection(parse_address(server.address)) as sock:
            announce(sock, Announcement("g", 2, False, tuple(rows("g", 0)), 60.0, "doomed"))
            announced(server, 1)
        survivor = pool.submit(join, server.address, SECRET, "g", 2, False, rows("g", 1))
        while True:  # until its end has reached the server
            with contextlib.suppress(Error):
                table = join(server.address, SECRET, "g", 2, False, rows("g", 0))
                break
        assert table.pack() == survivor.result().pack()


def test_nobody_listening_is_reported_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = format_address(*holder.getsockname())
    with pytest.raises(TimeoutError, match="connection refused; is it running"):
        join(address, SECRET, "a", 1, False, whole("a", 1), timeout=0.2)


def test_closing_the_server_ends_the_wait_of_its_members(pool):
    with Server(SECRET, 2) as server:
        member = pool.submit(join, server.address, SECRET, "a", 1, False, whole("a", 1))
        announced(server, 1)
    with pytest.raises(Error, match="it ended before all groups had come"):
        member.result()
    with pytest.raises(Error, match="was closed"):
        server.wait(20)


# ---- A group has ended before it joined ------------------------------------------------------


def test_all_who_wait_and_who_come_later_are_told_which_group_has_ended(pool):
    with Server(SECRET, {"ocean": 1, "ice": 2}) as server:
        waiting = [
            pool.submit(join, server.address, SECRET, "ocean", 1, True, whole("ocean", 1)),
            pool.submit(join, server.address, SECRET, "ice", 2, False, rows("ice", 1)),
        ]
        announced(server, 2)
        server.fail("ice", "exit status 3")
        server.fail("ocean", "too late to matter")
        words = "'ice' ended before it had joined: exit status 3"
        for member in waiting:
            with pytest.raises(Error, match=words):
                member.result()
        with pytest.raises(Error, match=words):
            server.wait(20)
        with pytest.raises(Error, match=words):
            join(server.address, SECRET, "ice", 2, False, rows("ice", 0))
        assert [(group.name, group.failure) for group in server.arrivals()] == [
            ("ocean", None),
            ("ice", "exit status 3"),
        ]


def test_the_reason_may_be_a_file_whose_name_is_no_text():
    with Server(SECRET, {"a": 1}) as server:
        server.fail("a", "\udcff: No such file")
        with pytest.raises(Error, match="udcff: No such file"):
            join(server.address, SECRET, "a", 1, False, whole("a", 1))


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(Error, match="printable"):
        Announcement("\udcff", 1, False, tuple(whole("a", 1)), 1.0, "here")


def test_who_listens_everywhere_says_where_others_go():
    with Server(SECRET, 1, listen="0.0.0.0:0") as server:
        assert parse_address(server.address)[0] == own_address() != "0.0.0.0"
        join(server.address, SECRET, "a", 1, False, whole("a", 1))


def test_the_end_of_a_group_is_nothing_to_a_job_that_is_complete():
    with Server(SECRET, 1) as server:
        table = join(server.address, SECRET, "a", 1, False, whole("a", 1))
        server.fail("a", "it ended, but later")
        assert server.wait(20).pack() == table.pack()
        assert server.arrivals()[0].failure is None


def test_arrivals_say_who_has_come_from_where(pool):
    with Server(SECRET, {"z": 1, "a": 3}) as server:
        pool.submit(join, server.address, SECRET, "a", 3, False, rows("a", 2))
        announced(server, 1)
        missing, coming = server.arrivals()
        assert (missing.name, missing.size, missing.has_mpi, missing.ranks) == ("z", 1, None, ())
        assert (coming.name, coming.size, coming.has_mpi, coming.ranks) == ("a", 3, False, (2,))
        assert f"{socket.gethostname()} pid {os.getpid()} (127.0.0.1:" in coming.origins[0]
        assert not coming.complete


# ---- Somebody should not be there ----------------------------------------------------------


def announce(sock, announcement):
    """Join by hand and say nothing more."""
    handshake.client(
        sock, SECRET, handshake.job_id(SECRET), role=handshake.Role.MEMBER, deadline=float("1e9")
    )
    sock.sendall(message(Kind.ANNOUNCE, announcement.pack()))


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


def test_a_group_with_another_version_is_refused(pool):
    other = bytearray(row("b", 0))
    other[38] = 2  # `layout` of `struct row`
    with Server(SECRET, 2) as server:
        first = pool.submit(join, server.address, SECRET, "a", 1, False, whole("a", 1))
        announced(server, 1)
        with pytest.raises(Error, match="'b' has another version of acp_mpi than group 'a' from"):
            join(server.address, SECRET, "b", 1, False, [(0, bytes(other))])
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
            b"ACPH\x09",
            b"\x16\x03\x01",
            *(source.randbytes(source.randrange(1, 300)) for _ in range(100)),
        ):
            with socket.create_connection(parse_address(server.address), 20) as sock:
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
            strangers.enter_context(socket.create_connection(parse_address(server.address)))
        assert len(join(server.address, SECRET, "a", 1, False, whole("a", 1))) == 1
        assert server.statistics().pending <= 4


def test_a_crowd_that_keeps_silent_holds_nobody_up_for_long(monkeypatch):
    monkeypatch.setattr(reception, "PENDING_MAX", 4)
    monkeypatch.setattr(reception, "CROWD_TIMEOUT", 0.01)  # and the others may take 5 s
    with Server(SECRET, 1) as server, contextlib.ExitStack() as strangers:
        for _ in range(200):
            strangers.enter_context(socket.create_connection(parse_address(server.address)))
        assert len(join(server.address, SECRET, "a", 1, False, whole("a", 1))) == 1
        assert server.statistics().dropped >= 196


@pytest.mark.slow
def test_ten_thousand_connections_disturb_nobody(pool):
    source = random.Random(5)
    with Server(SECRET, 2) as server, contextlib.ExitStack() as silent:
        one = pool.submit(join, server.address, SECRET, "a", 1, False, whole("a", 1))
        for index in range(10_000):
            sock = socket.create_connection(parse_address(server.address), 20)
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
            b"\xff" * 12,
            struct.pack("<B3xII", 1, 4, 0) + b"oops",
            struct.pack("<B3xII", 2, 0, 0),
            struct.pack("<B3xII", 1, 0, 0),
        ):
            with socket.create_connection(parse_address(server.address), 20) as sock:
                handshake.client(
                    sock,
                    SECRET,
                    handshake.job_id(SECRET),
                    role=handshake.Role.MEMBER,
                    deadline=float("1e9"),
                )
                sock.sendall(nonsense)
                assert sock.recv(100) == b""
        assert len(join(server.address, SECRET, "a", 1, False, whole("a", 1))) == 1


# ---- The table and the rules ---------------------------------------------------------------


def test_a_table_survives_packing_and_damage_is_an_error():
    table = Membership()
    table.append("océan", True, b"".join(row("o", r) for r in range(3)))
    table.append("ice", False, row("i", 0))
    packed = table.pack()
    again = Membership.unpack(packed)
    assert again.groups == table.groups
    assert again.rows == table.rows
    for cut in range(len(packed)):
        with pytest.raises(Error):
            Membership.unpack(packed[:cut])
    with pytest.raises(Error, match="1 bytes too long"):
        Membership.unpack(packed + b"x")


def test_random_bytes_are_no_announcement():
    source = random.Random(7)
    sound = Announcement("g", 4, False, tuple(rows("g", 1, 3)), 5.0, "here").pack()
    assert Announcement.unpack(sound).rows == tuple(rows("g", 1, 3))
    for _ in range(3000):
        data = bytearray(sound[: source.randrange(len(sound))] + source.randbytes(30))
        with contextlib.suppress(Error):
            Announcement.unpack(bytes(data))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("", 1, False, whole("x", 1)), "group name"),
        (("a\n", 1, False, whole("x", 1)), "group name"),
        (("a", 0, False, []), "size 0"),
        (("a", 2, True, rows("x", 0)), "gather all"),
        (("a", 2, False, rows("x", 2)), "ranks from 2 to 2"),
        (("a", 2, False, rows("x", 0, 0)), "different"),
        (("a", 2, False, []), "one or more"),
        (("a", 1, False, [(0, b"short")]), "expected 64"),
    ],
)
def test_what_cannot_be_announced_fails_before_anything_is_sent(arguments, words):
    with pytest.raises(Error, match=words):
        join("127.0.0.1:1", SECRET, *arguments)


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":1", "host:-1", "host:70000", "::1:5", "host:x"]
)
def test_a_wrong_address_says_what_is_expected(address):
    with pytest.raises(Error, match="HOST:PORT"):
        join(address, SECRET, "a", 1, False, whole("a", 1))


def test_addresses_of_both_families():
    for address in ("127.0.0.1:80", "[::1]:80", "node:0"):
        assert format_address(*parse_address(address)) == address


def test_ranks_are_reported_as_ranges():
    roll = Roll(1)
    roll.enter(Announcement("g", 10, False, tuple(rows("g", 0, 1, 2, 7)), 1.0, ""), "here")
    assert "ranks 0-2, 7)" in roll.report()
    assert "ranks 3-6, 8-9 of group 'g'" in roll.report()


# ---- The program ---------------------------------------------------------------------------

PACKAGE_PARENT = Path(acp_mpi.errors.__file__).parent.parent


def serve(*arguments, environ=None):
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "acp_mpi.spawn.macprun", "serve", *arguments],
        env=dict(os.environ, PYTHONPATH=str(PACKAGE_PARENT), **(environ or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_program_prints_its_address_and_ends_when_all_have_left(pool, tmp_path):
    key = secret.create(tmp_path / "secret")
    with serve("--groups", "b=1,a=1", "--secret-file", str(tmp_path / "secret")) as program:
        name, _, address = program.stdout.readline().strip().partition("=")
        assert name == "ACP_RENDEZVOUS"
        assert address.startswith("127.0.0.1:")
        other = pool.submit(join, address, key, "b", 1, False, whole("b", 1))
        table = join(address, key, "a", 1, False, whole("a", 1))
        other.result()
        assert [group.name for group in table.groups] == ["b", "a"]
        assert program.wait(20) == 0
        assert program.stdout.read() == ""


def test_a_program_makes_a_secret_and_never_touches_one(tmp_path):
    def make():
        macprun = [sys.executable, "-P", "-m", "acp_mpi.spawn.macprun"]
        command = [*macprun, "secret", tmp_path / "secret"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert (make().returncode, make().returncode) == (0, 1)
    assert len(secret.read(tmp_path / "secret")) == 32
    assert "File exists" in make().stderr


def test_the_program_says_who_is_missing_and_fails(tmp_path):
    secret.create(tmp_path / "secret")
    with serve(
        "--groups", "2", "--timeout", "0.1", environ={"ACP_SECRET_FILE": str(tmp_path / "secret")}
    ) as program:
        assert program.wait(20) == 1
        assert "missing: 2 more groups" in program.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--groups", "0"], 2),
        (["--groups", "a=1,a=2"], 2),
        ([], 2),
        (["--groups", "1"], 1),
        (["--groups", "1", "--timeout", "-1"], 2),
        (["--groups", "1", "--secret-file", "/nonexistent"], 1),
    ],
)
def test_usage_errors_are_2_and_others_1(arguments, status):
    with serve(*arguments, environ={"ACP_SECRET_FILE": "", "ACP_SECRET": ""}) as program:
        assert program.wait(20) == status
        assert program.stdout.read() == ""
        assert program.stderr.read()
