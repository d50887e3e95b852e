"""Groups find each other through the rendezvous, or learn who is missing."""

import _socket
import contextlib
import os
import random
import re
import socket
import threading

import pytest
from arriving import (
    SECRET,
    announce,
    announced,
    row,
    rows,
    run_out_of_patience,
    run_out_of_time,
    whole,
)
from guard import Guard

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import handshake, reception
from acp_mpi.job.rendezvous import server as rendezvous
from acp_mpi.job.rendezvous.address import format_address, own_address, parse_address
from acp_mpi.job.rendezvous.announcement import Announcement
from acp_mpi.job.rendezvous.connector import join
from acp_mpi.job.rendezvous.messages import Kind
from acp_mpi.job.rendezvous.server import Server

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


def addresses(monkeypatch, *those):
    """Let names have these addresses, in this order; what is returned counts the questions."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", where) for where in those]
    asked = threading.Semaphore(0)
    monkeypatch.setattr(_socket, "getaddrinfo", lambda *_: asked.release() or found)
    return asked


def test_an_address_that_leads_nowhere_leaves_time_for_the_next(monkeypatch):
    with (
        Server(SECRET, 1) as server,
        socket.create_server(("127.0.0.1", 0), backlog=0) as silent,
        socket.create_connection(silent.getsockname()),  # whoever calls next is not heard
    ):
        where = parse_address(server.address)
        addresses(monkeypatch, silent.getsockname(), where)
        table = join(format_address("host", where[1]), SECRET, "a", 1, False, whole("a", 1), 6.0)
        assert len(table) == 1


def test_a_rendezvous_is_waited_for_also_if_one_of_its_addresses_is_out_of_reach(monkeypatch, pool):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        where = holder.getsockname()
    asked = addresses(monkeypatch, where, ("255.255.255.255", where[1]))
    address = format_address("host", where[1])
    early = pool.submit(join, address, SECRET, "a", 1, False, whole("a", 1), 20.0)
    for _ in range(2):
        assert asked.acquire(timeout=600), early.result()
    with Server(SECRET, 1, listen=format_address(*where)):
        assert len(early.result()) == 1


def test_the_server_ends_when_all_have_left_and_close_is_idempotent(pool):
    server = Server(SECRET, 1)
    join(server.address, SECRET, "a", 1, False, whole("a", 1))
    server.wait(20)
    server.close()
    server.close()
    assert server.closed
    assert "closed" in repr(server)


def test_one_that_stays_refuses_whoever_comes_later():
    with Server(SECRET, 1, stays=True) as server:
        table = join(server.address, SECRET, "a", 1, False, whole("a", 1))
        assert server.wait(20).pack() == table.pack()
        with pytest.raises(Error, match="the job is complete, and nobody else can join it"):
            join(server.address, SECRET, "a", 1, False, whole("a", 1))


# ---- Somebody is missing -------------------------------------------------------------------


def test_one_that_is_stopped_when_all_have_come_holds_up_nobody(monkeypatch):
    """What it is told is there when it goes on."""
    monkeypatch.setattr(rendezvous, "_LEAVE_TIMEOUT", 0.1)
    stopped = Announcement("a", 1, False, tuple(whole("a", 1)), 60.0, "here")
    with (
        Server(SECRET, 2) as server,
        socket.create_connection(parse_address(server.address)) as sock,
    ):
        side = announce(sock, stopped)
        announced(server, 1)
        table = join(server.address, SECRET, "b", 1, False, whole("b", 1))
        assert server.wait(20).pack() == table.pack()
        assert handshake.receive_message(sock, side, 0.0) == (Kind.TABLE, table.pack())


def test_the_deadline_says_who_came_from_where_and_who_is_missing(pool):
    with Server(SECRET, {"ocean": 2, "ice": 4, "land": 3}) as server:
        members = [
            pool.submit(join, server.address, SECRET, "ocean", 2, True, whole("ocean", 2)),
            pool.submit(join, server.address, SECRET, "ice", 4, False, rows("ice", 0)),
            pool.submit(join, server.address, SECRET, "ice", 4, False, rows("ice", 2)),
        ]
        announced(server, 4)
        run_out_of_time(server)
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
        member = pool.submit(join, server.address, SECRET, "a", 1, False, whole("a", 1))
        announced(server, 1)
        run_out_of_patience(server)
        with pytest.raises(TimeoutError, match="1 more group, not announced yet"):
            member.result()
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


def test_who_gets_no_processor_for_its_proof_comes_again(monkeypatch):
    """Its last words go to a closed connection: it hears of that when it awaits the table."""
    send = handshake.send_message

    def late(*given):
        guard = Guard(40.0)
        while server.statistics().pending or server.statistics().members:
            assert not guard.over, server.statistics()
            os.sched_yield()
        monkeypatch.setattr(reception, "HANDSHAKE_TIMEOUT", 60.0)
        monkeypatch.setattr(handshake, "send_message", send)
        send(*given)

    monkeypatch.setattr(reception, "HANDSHAKE_TIMEOUT", 0.01)
    monkeypatch.setattr(handshake, "send_message", late)
    with Server(SECRET, 1) as server:
        assert len(join(server.address, SECRET, "a", 1, False, whole("a", 1))) == 1
        assert server.statistics().dropped


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
