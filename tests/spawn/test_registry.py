"""The registry of a job that grows: whom it answers, and what it keeps of processes that end."""

import contextlib
import gc
import os
import socket
import threading

import pytest
from arriving import SECRET, rows, whole

from acp_mpi.errors import Error
from acp_mpi.job.registry import client
from acp_mpi.job.registry.client import Question
from acp_mpi.job.rendezvous import connection, connector, handshake
from acp_mpi.job.rendezvous.membership import Membership
from acp_mpi.job.rendezvous.messages import Kind
from acp_mpi.job.rendezvous.row import _ROW
from acp_mpi.job.rendezvous.visitor import Visitor
from acp_mpi.spawn.groups.newcomers import Newcomers
from acp_mpi.spawn.groups.registry_server import Registry
from acp_mpi.util import host, processes


def table_of(pid):
    table = Membership()
    start_time = processes.start_time(pid)
    row = _ROW.pack(1, 0, start_time, pid, 0, 0, 0, 0, 0, b"", host.host_key())
    table.append("a", False, row)
    return table


@contextlib.contextmanager
def registry(*promised):
    """Serve a job of this process, and return the address."""
    left, listener = os.eventfd(0), socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    one = Registry(SECRET, table_of(os.getpid()), listener, promised, range(1), left)
    thread = threading.Thread(target=one.serve)
    thread.start()
    try:
        yield f"{host}:{port}"
    finally:
        os.eventfd_write(left, 1)
        thread.join()


def test_a_name_that_is_promised_to_the_maker_is_nobody_else_s():
    with registry("early") as address:
        with (
            Question(address, SECRET, ("early",)) as other,
            pytest.raises(Error, match="there is a group 'early' in this job already"),
        ):
            other.answer()
        connector.join(address, SECRET, "early", 1, False, whole("early", 1))
        with Question(address, SECRET, ("early",), maker=True) as question:
            assert [group.name for group in question.answer().groups] == ["a", "early"]


def test_a_question_is_asked_again_when_the_registry_lets_go_of_it(monkeypatch):
    dialled = []

    def let_go_of_the_first(*where):
        connection = dial(*where)
        if not dialled:
            connection.shutdown(socket.SHUT_RDWR)
        dialled.append(where)
        return connection

    dial = client.dial
    monkeypatch.setattr(client, "dial", let_go_of_the_first)
    with registry() as address, Question(address, SECRET) as question:
        assert len(question.answer()) == 1
    assert len(dialled) == 2


def test_a_question_that_came_too_late_is_asked_again(monkeypatch):
    """The registry has closed the connection before the proof comes, which nobody is told."""
    sent = []
    send = handshake.send

    def send_to_nobody_at_first(sock, data, deadline):
        if data[0] == Kind.AWAIT and not sent:
            sent.append(data)
            sock.shutdown(socket.SHUT_RDWR)
            return
        send(sock, data, deadline)

    monkeypatch.setattr(handshake, "send", send_to_nobody_at_first)
    with registry() as address, Question(address, SECRET) as question:
        assert len(question.answer()) == 1
    assert sent


def test_a_group_that_nobody_awaits_is_refused():
    with registry() as address:
        with pytest.raises(Error, match="nobody in this job awaits a group 'stranger'"):
            connector.join(address, SECRET, "stranger", 1, False, whole("stranger", 1))
        with Question(address, SECRET) as question:
            assert len(question.answer()) == 1


def test_part_of_a_group_goes_when_it_is_awaited_no_longer(pool, monkeypatch):
    came, enter = threading.Event(), Newcomers.enter

    def enter_and_say(*given):
        complete = enter(*given)
        came.set()
        return complete

    monkeypatch.setattr(Newcomers, "enter", enter_and_say)
    with registry() as address:
        with Question(address, SECRET, ("late",)):
            part = pool.submit(connector.join, address, SECRET, "late", 2, False, rows("late", 0))
            assert came.wait(40)  # who comes after that is told something else
            assert not part.done()
        with pytest.raises(Error, match="the starter of group 'late' has ended"):
            part.result(20)


def options(sock):
    """Return whether the system asks the other end for a sign of life, and after what silence."""
    return (
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
    )


def test_a_host_that_vanishes_is_noticed_at_both_ends():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        connection.dial(listener.getsockname(), 5.0) as near,
    ):
        far, address = listener.accept()
        visitor = Visitor(far, str(address))
        assert options(near) == options(far) == (1, 30)
        visitor.close()


def test_a_connection_to_itself_is_none(monkeypatch):
    """The system may give who connects to a port of its own host that very port."""

    class Unlucky(connection.Connection):
        def connect(self, address):
            self.bind(address)
            super().connect(address)

    monkeypatch.setattr(connection, "Connection", Unlucky)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = listener.getsockname()
    with pytest.raises(ConnectionRefusedError):
        connection.dial(where, 5.0)


def test_nothing_is_kept_of_a_process_that_ends_while_it_is_looked_at(monkeypatch):
    """It can be opened, and is gone when it is asked since when it runs."""
    child = os.fork()
    if not child:
        os._exit(0)
    start_time, table = processes.start_time, table_of(child)

    def collect_first(pid):
        os.waitpid(pid, 0)
        return start_time(pid)

    monkeypatch.setattr(processes, "start_time", collect_first)
    gc.collect()  # what earlier tests have left
    before = os.listdir("/proc/self/fd")
    left, listener = os.eventfd(0), socket.create_server(("127.0.0.1", 0))
    Registry(SECRET, table, listener, (), range(0), left).serve()
    os.close(left)
    assert len(os.listdir("/proc/self/fd")) == len(before)
