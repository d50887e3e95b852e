"""Messages of whole jobs: between groups, beside a program that computes, past their bound."""

import os
import signal
import threading
import time

import launch
import pytest

import acp_mpi as acp

MIB = 1 << 20


def talk():
    """Every rank sends to every other, all receive; without NumPy."""
    acp.init()
    rank, procs = acp.rank(), acp.procs()
    for size in (0, 8, 300, 100_000, 2 * MIB):
        room = bytearray(size)
        for other in range(procs):
            acp.send(bytes([rank + 1]) * size, other, rank)
        for other in range(procs):
            assert acp.recv(room, other, other) is room
            assert room == bytes([other + 1]) * size
    for other in range(procs):
        acp.send({"from": rank}, other, 1000)
    seen = sorted(acp.recv(tag=1000)["from"] for _ in range(procs))
    assert seen == list(range(procs))
    requests = [acp.irecv(source=other, tag=7) for other in range(procs)]
    for other in range(procs):
        acp.send((rank, other), other, 7)
    assert acp.waitall(requests) == [(other, rank) for other in range(procs)]
    import sys

    assert "numpy" not in sys.modules
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("mixture", launch.MIXTURES)
def test_any_two_ranks_of_any_groups(groups, meeting, all_pass, mixture, road):
    sizes = launch.MIXTURES[mixture]
    place = meeting({name: ranks for name, (_, ranks) in sizes.items()})
    all_pass(groups(sizes, talk, env=place | launch.ROADS[road]))


def busy_until(path):
    """Compute until a file is there, in Python and without a call of the library."""
    x = 0
    while not os.path.exists(path):
        x += 1
    return x


def deliver_beside_computation(folder):
    """The receiver computes until the sender's long message is complete there."""
    import numpy as np

    acp.init()
    size = 64 * MIB
    done = f"{folder}/the sender is done"
    if acp.rank() == 0:
        acp.sync()
        acp.isend(np.full(size, 7, np.uint8), 1, 3).wait()
        acp.send(b"after it", 1, 4)
        open(done, "w").close()
    else:
        room = np.zeros(size, np.uint8)
        request = acp.irecv(room, 0, 3)
        small = bytearray(8)
        second = acp.irecv(small, 0, 4)
        acp.sync()
        busy_until(done)
        assert second.wait() == b"after it"
        assert request.done
        assert (request.wait() == 7).all()
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_a_long_message_completes_while_the_receiver_computes(passes, tmp_path, road):
    passes(
        [*launch.mpiexec(2), *launch.program(deliver_beside_computation, tmp_path)],
        launch.ROADS[road],
    )


def deadlock_nowhere():
    """Known fault 13: both send 64 MiB before they receive, in pieces that nobody waits for."""
    import numpy as np

    acp.init()
    size = 64 * MIB
    other = acp.rank() ^ 1
    data = np.full(size, acp.rank() + 1, np.uint8)
    for tag in range(3):
        acp.send(data, other, tag)
    room = np.zeros(size, np.uint8)
    for tag in reversed(range(3)):
        acp.recv(room, other, tag)
        assert (room == other + 1).all()
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_both_send_much_before_they_receive(passes, road):
    passes([*launch.mpiexec(2), *launch.program(deadlock_nowhere)], launch.ROADS[road])


BOUND = 2 * MIB


def flood(size, count, order):
    """Send what nobody receives yet; then all of it is received, in that order."""
    size, count = int(size), int(count)
    acp.init()
    if acp.rank() > 0:
        for step in range(count):
            acp.send(step.to_bytes(8, "little") * (size // 8), 0, step)
        acp.send(b"", 0, count)
    else:
        for source in range(1, acp.procs()):
            acp.recv(source=source, tag=count)
        assert acp.heap_statistics(0).used < BOUND * 5 // 4 + 3 * MIB
        steps = range(count) if order == "first" else range(count - 1, -1, -1)
        room = bytearray(size)
        for source in range(1, acp.procs()):
            for step in steps:
                acp.recv(room, source, step)
                assert room == step.to_bytes(8, "little") * (size // 8)
        assert acp.iprobe() is None
    acp.sync()
    assert acp.heap_statistics(acp.rank()).used < 3 * MIB, "blocks of messages stayed behind"
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("order", ["first", "last"])
@pytest.mark.parametrize(("size", "count"), [(8, 2000), (4096, 400), (MIB, 10)])
def test_a_flood_stays_within_its_bound_and_loses_nothing(passes, road, order, size, count):
    passes(
        [*launch.mpiexec(3), *launch.program(flood, size, count, order)],
        launch.ROADS[road] | {"ACP_UNEXPECTED_MAX": str(BOUND)},
    )


def flood_without_end(folder):
    """More envelopes than there is room for: senders wait, asleep, and all comes through."""
    acp.init()
    count = 20_000
    if acp.rank() > 0:
        for step in range(count):
            acp.send(step, 0, 1)
    else:
        for _ in range(count * (acp.procs() - 1)):
            acp.recv(tag=1)
        assert acp.iprobe() is None
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_senders_wait_for_a_receiver_that_is_full(passes, tmp_path, road):
    passes(
        [*launch.mpiexec(3), *launch.program(flood_without_end, tmp_path)],
        launch.ROADS[road] | {"ACP_UNEXPECTED_MAX": "64K"},
        limit=90,
    )


def pass_a_flood():
    """Behind what waits for room stands what the receiver asks for: it comes."""
    acp.init()
    room = bytearray(300_000)
    if acp.rank() > 0:
        requests = [acp.isend(b"flood", 0, 1) for _ in range(400)]
        requests += [acp.isend(bytes([step]) * 300_000, 0, 2) for step in range(3)]
        acp.send(b"last", 0, 3)
        for request in requests:
            request.wait()
    else:
        for source in range(1, acp.procs()):
            assert acp.recv(source=source, tag=3) == b"last"
            for step in range(3):
                acp.recv(room, source, 2)
                assert room == bytes([step]) * 300_000
        for _ in range(400 * (acp.procs() - 1)):
            assert acp.recv(tag=1) == b"flood"
        assert acp.iprobe() is None
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_what_is_received_passes_a_flood(passes, road):
    passes(
        [*launch.mpiexec(3), *launch.program(pass_a_flood)],
        launch.ROADS[road] | {"ACP_UNEXPECTED_MAX": "64K"},
    )


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
    from acp_mpi.members import DOING

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
        assert acp.heap_statistics(1).used < used + 50_000  # letters
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
    launch.until(lambda: launch.stat(sender)[0] == "T")
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
    from acp_mpi.members import DOING

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
        os.kill(sender, signal.SIGSTOP)  # the rest is on its way
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
    from acp_mpi.members import DOING

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
        os.kill(sender, signal.SIGSTOP)  # the rest is on its way
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
    assert acp.recv(source=1, tag=1, timeout=60) == data
    assert acp.recv(source=1, tag=1, timeout=60) == "next"
    assert room == b"7" * len(room)
    acp.send(None, 1, 3)
    acp.finalize()


@pytest.mark.parametrize("seconds", [0, 1], ids=["for ever", "timeout"])
@pytest.mark.parametrize("road", ["link", "nodes"])
def test_ctrl_c_twice_while_a_message_comes_loses_nothing(without_mpi, road, seconds):
    program = launch.program(interrupt_twice_while_bytes_come, seconds)
    jobs = without_mpi(2, program, launch.ROADS[road])
    assert [job.wait() for job in jobs] == [0, 0], "\n".join(job.output for job in jobs)


def leave_requests_behind():
    """Requests that are not over when the job ends say so, and nothing else happens."""
    acp.init()
    receive = acp.irecv(bytearray(8), tag=5)
    acp.send(b"never received", acp.rank(), 6)
    acp.sync()
    acp.finalize()
    for _ in range(2):
        with pytest.raises(acp.Error, match="irecv from any rank, tag 5: the job ended before"):
            receive.wait()
    assert receive.done
    with pytest.raises(acp.NotInitializedError):
        acp.recv()
    acp.init()  # a job of its own starts with an empty mailbox
    assert acp.iprobe() is None
    acp.finalize()


def start_again():
    """After reset there are no messages and no requests."""
    acp.init()
    other = (acp.rank() + 1) % acp.procs()
    receive = acp.irecv(tag=5)
    acp.send(b"x" * 100_000, other, 6)
    acp.send(b"y", other, 6)
    message = acp.mprobe(tag=6)
    acp.reset(other)
    with pytest.raises(acp.Error, match="reset came before"):
        receive.wait()
    with pytest.raises(ValueError, match="reset"):
        message.recv()
    del message
    assert acp.iprobe(tag=6) is None
    acp.send(acp.rank(), 0, 5)
    if acp.rank() == 0:
        assert sorted(acp.recv(tag=5) for _ in range(acp.procs())) == list(range(acp.procs()))
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize("function", [leave_requests_behind, start_again])
def test_messages_end_with_their_job(passes, road, function):
    passes([*launch.mpiexec(3), *launch.program(function)], launch.ROADS[road])
