"""Ctrl-C while a message is received, in whole jobs: nothing is lost, or written afterwards."""

import os
import signal
import threading
import time

import launch
import pytest

import acp_mpi as acp

MIB = 1 << 20


def interrupt_receives():
    """Ctrl-C again and again while messages come: each is received once."""
    acp.init()
    count = 300
    other = acp.rank() ^ 1
    if acp.rank() == 0:
        for step in range(count):
            acp.send(step.to_bytes(4, "little") * (1 + step * 37 % 5000), 1, 2)
            acp.recv(source=1, tag=3)
    else:
        stop = threading.Event()

        def annoy():
            while not stop.is_set():
                os.kill(os.getpid(), signal.SIGUSR1)
                os.sched_yield()

        armed = False

        def on_signal(number, frame):
            nonlocal armed
            if armed:
                armed = False
                raise KeyboardInterrupt

        signal.signal(signal.SIGUSR1, on_signal)
        thread = threading.Thread(target=annoy)
        thread.start()
        got = []
        room = bytearray(20_000)
        interrupted = 0
        for step in range(count):
            status = acp.Status()
            while not status.size:
                try:
                    armed = True
                    acp.recv(room, other, 2, status)
                    armed = False
                except KeyboardInterrupt:  # perhaps behind the receive
                    interrupted += 1
            got.append(int.from_bytes(room[:4], "little"))
            assert status.size == 4 * (1 + step * 37 % 5000)
            acp.send(None, other, 3)
        stop.set()
        thread.join()
        assert got == list(range(count))
        assert interrupted
        assert acp.iprobe() is None
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_an_interrupted_receive_loses_nothing(passes, road):
    passes([*launch.mpiexec(2), *launch.program(interrupt_receives)], launch.ROADS[road])


def interrupt_while_bytes_are_brought():
    """A message stayed with its sender, which is stopped; Ctrl-C ends each wait for its bytes."""
    from acp_mpi.engine import _engine
    from acp_mpi.job.membership import DOING

    acp.init()
    acp.sync()
    data = bytes(range(256)) * 12_000
    if acp.rank() == 1:
        used = acp.heap_statistics(1).used
        acp.send(data, 0, 1)
        assert acp.heap_statistics(1).used > used + len(data)
        acp.send(os.getpid(), 0, 2)
        os.kill(os.getpid(), signal.SIGSTOP)
        acp.recv(source=0, tag=3)
        assert acp.heap_statistics(1).used < used + 150_000  # entries, and a ring for rank 0
        acp.finalize()
        return

    def press():
        launch.until(lambda: DOING[_engine.doing(0)] == "is in complete", limit=20.0)
        os.kill(os.getpid(), signal.SIGINT)

    def interrupted(call):
        thread = threading.Thread(target=press)
        thread.start()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            call()
            launch.until(lambda: False, limit=5.0)
        thread.join()

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sender = acp.recv(source=1, tag=2)
    launch.until(lambda: launch.is_stopped(sender))
    room, other = bytearray(len(data)), bytearray(len(data))
    interrupted(lambda: acp.recv(room, 1, 1))
    assert acp.iprobe(1, 1).size == len(data)
    interrupted(lambda: acp.recv(source=1))
    request = acp.irecv(other, tag=1)
    assert acp.iprobe() is None
    interrupted(request.wait)
    room[:] = b"7" * len(room)
    os.kill(sender, signal.SIGCONT)
    assert request.wait() is other
    assert other == data
    assert room == b"7" * len(room)
    acp.send(None, 1, 3)
    acp.finalize()


@pytest.mark.parametrize("road", ["owner", "link", "nodes"])  # load and store waits for nobody
def test_ctrl_c_while_bytes_are_brought_loses_nothing(without_mpi, road):
    program = launch.program(interrupt_while_bytes_are_brought)
    jobs = without_mpi(2, program, launch.ROADS[road] | {"ACP_UNEXPECTED_MAX": "64K"})
    assert [job.wait() for job in jobs] == [0, 0], "\n".join(job.output for job in jobs)


def interrupt_where_there_is_too_little_room():
    """Ctrl-C while a message comes for which the buffer is too short: the next receive is told."""
    from acp_mpi.engine import _engine
    from acp_mpi.job.membership import DOING

    acp.init()
    acp.sync()
    size = 256 * MIB
    if acp.rank() == 1:
        data = b"7" * size
        acp.send(os.getpid(), 0, 2)
        acp.recv(source=0, tag=4)
        acp.send(data, 0, 1)
        acp.recv(source=0, tag=3)
        acp.finalize()
        return
    sender = acp.recv(source=1, tag=2)
    room, pressed = bytearray(1000), threading.Event()

    def press():
        launch.until(lambda: DOING[_engine.doing(0)] == "is in recv", limit=20.0)
        acp.send(None, 1, 4)
        while not room[0]:
            os.sched_yield()
        launch.freeze(sender)  # the rest is on its way
        os.kill(os.getpid(), signal.SIGINT)
        pressed.wait()
        os.kill(sender, signal.SIGCONT)

    def on_signal(number, frame):
        pressed.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_signal)
    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        acp.recv(room, 1, 1)
    thread.join()
    assert acp.iprobe(1, 1).size == size
    with pytest.raises(acp.TruncationError, match=f"{size} bytes .*1000 was interrupted"):
        acp.recv(source=1, tag=1)
    acp.send(None, 1, 3)
    acp.finalize()


@pytest.mark.parametrize("road", ["link", "nodes"])
def test_ctrl_c_while_a_message_comes_that_is_too_long(without_mpi, road):
    program = launch.program(interrupt_where_there_is_too_little_room)
    jobs = without_mpi(2, program, launch.ROADS[road])
    assert [job.wait() for job in jobs] == [0, 0], "\n".join(job.output for job in jobs)


def interrupt_twice_while_bytes_come(seconds):
    """The sender is stopped in the middle of a message; then Ctrl-C, and once more.

    The timeout, if there is one, is over before the first, when the message has met its receive.
    """
    from acp_mpi.engine import _engine
    from acp_mpi.job.membership import DOING

    acp.init()
    acp.sync()
    data = b"5" * (256 * MIB)
    if acp.rank() == 1:
        acp.send(os.getpid(), 0, 2)
        acp.recv(source=0, tag=4)
        acp.send(data, 0, 1)
        acp.send("next", 0, 1)
        acp.recv(source=0, tag=3)
        acp.finalize()
        return
    sender = acp.recv(source=1, tag=2)
    room, presses, timeout = bytearray(len(data)), [], float(seconds) or None

    def press():
        launch.until(lambda: DOING[_engine.doing(0)] == "is in recv", limit=20.0)
        end = time.monotonic() + float(seconds) + 0.1
        acp.send(None, 1, 4)
        while not room[0]:
            os.sched_yield()
        launch.freeze(sender)  # the rest is on its way
        launch.until(lambda: time.monotonic() > end)
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGINT)
            launch.until(lambda count=count: len(presses) == count)
        os.kill(sender, signal.SIGCONT)

    def on_signal(number, frame):
        presses.append(number)
        raise KeyboardInterrupt(len(presses))

    signal.signal(signal.SIGINT, on_signal)
    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt) as caught:  # noqa: PT012
        acp.recv(room, 1, 1, timeout=timeout)
        launch.until(lambda: False, limit=5.0)
    room[:] = b"7" * len(room)
    thread.join()
    assert caught.value.args == (2,)
    assert acp.recv(source=1, tag=1, timeout=600) == data
    assert acp.recv(source=1, tag=1, timeout=600) == "next"
    assert room == b"7" * len(room)
    acp.send(None, 1, 3)
    acp.finalize()


@pytest.mark.parametrize("seconds", [0, 3], ids=["for ever", "timeout"])
@pytest.mark.parametrize("road", ["link", "nodes"])
def test_ctrl_c_twice_while_a_message_comes_loses_nothing(without_mpi, road, seconds):
    program = launch.program(interrupt_twice_while_bytes_come, seconds)
    jobs = without_mpi(2, program, launch.ROADS[road])
    assert [job.wait() for job in jobs] == [0, 0], "\n".join(job.output for job in jobs)
