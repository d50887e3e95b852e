"""Ctrl-C while a message is received, in whole jobs: nothing is lost, or written afterwards."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

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


def send_when_asked(data):
    """Be rank 1, whose message comes while rank 0 has it stopped; return when it says so."""
    acp.send(os.getpid(), 0, 2)
    while acp.recv(source=0, tag=4):
        acp.send(data, 0, 1)


def receive_again_and_again(room, came, timeout=None):
    """Receive from rank 1 until that is interrupted; add to `came` when one has come as a whole."""
    while True:
        with contextlib.suppress(acp.TruncationError):
            acp.recv(room, 1, 1, timeout=timeout)
        room[:] = bytes(len(room))
        came.append(None)


def stop_in_the_middle(sender, room, came):
    """Stop rank 1 while its message comes into `room`, for which the main thread waits.

    If this thread is held up before it is stopped, all has come: then once more.
    """
    from acp_mpi.engine import _engine
    from acp_mpi.job.membership import DOING

    def is_in_recv():
        return DOING[_engine.doing(0)] == "is in recv"

    while True:
        launch.until(is_in_recv, limit=20.0)
        before = len(came)
        acp.send(True, 1, 4)
        while not room[0] and len(came) == before:
            os.sched_yield()
        launch.freeze(sender)
        launch.until(nobody_else_runs)  # what was on its way has come
        if is_in_recv() and len(came) == before:
            return
        os.kill(sender, signal.SIGCONT)
        launch.until(lambda before=before: len(came) > before)


def nobody_else_runs():
    """Return whether all threads of this process sleep but the one that asks."""
    others = {*os.listdir("/proc/self/task")} - {str(threading.get_native_id())}
    for task in others:
        with contextlib.suppress(OSError):  # this thread has ended
            text = Path(f"/proc/self/task/{task}/stat").read_text()
            if text.rpartition(")")[2].split()[0] != "S":
                return False
    return True


def interrupt_where_there_is_too_little_room():
    """Ctrl-C while a message comes for which the buffer is too short: the next receive is told."""
    acp.init()
    acp.sync()
    size = 256 * MIB
    if acp.rank() == 1:
        send_when_asked(b"7" * size)
        acp.finalize()
        return
    sender = acp.recv(source=1, tag=2)
    room, pressed, came = bytearray(1000), threading.Event(), []

    def press():
        stop_in_the_middle(sender, room, came)
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
        receive_again_and_again(room, came)
    thread.join()
    assert acp.iprobe(1, 1).size == size
    with pytest.raises(acp.TruncationError, match=f"{size} bytes .*1000 was interrupted"):
        acp.recv(source=1, tag=1)
    acp.send(False, 1, 4)
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
    acp.init()
    acp.sync()
    data = b"5" * (256 * MIB)
    if acp.rank() == 1:
        send_when_asked(data)
        acp.send("next", 0, 1)
        acp.finalize()
        return
    sender = acp.recv(source=1, tag=2)
    room, presses, came, timeout = bytearray(len(data)), [], [], float(seconds) or None

    def press():
        stop_in_the_middle(sender, room, came)
        end = time.monotonic() + float(seconds) + 0.1
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
    with pytest.raises(KeyboardInterrupt) as caught:
        receive_again_and_again(room, came, timeout)
    room[:] = b"7" * len(room)
    thread.join()
    assert caught.value.args == (2,)
    assert acp.recv(source=1, tag=1, timeout=600) == data
    acp.send(False, 1, 4)
    assert acp.recv(source=1, tag=1, timeout=600) == "next"
    assert room == b"7" * len(room)
    acp.finalize()


@pytest.mark.parametrize("seconds", [0, 3], ids=["for ever", "timeout"])
@pytest.mark.parametrize("road", ["link", "nodes"])
def test_ctrl_c_twice_while_a_message_comes_loses_nothing(without_mpi, road, seconds):
    program = launch.program(interrupt_twice_while_bytes_come, seconds)
    jobs = without_mpi(2, program, launch.ROADS[road])
    assert [job.wait() for job in jobs] == [0, 0], "\n".join(job.output for job in jobs)
