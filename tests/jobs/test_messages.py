"""Messages of whole jobs: between groups, beside a program that computes, past their bound."""

import contextlib
import os

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
        launch.until(lambda: second.done)  # no call that waits has driven anything
        assert small == b"after it"
        assert request.done
        assert (room == 7).all()
        assert (request.status.size, second.status.size) == (size, 8)
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


def floods():
    """Send what nobody receives yet; then all of it is received, in the order of sends or not."""
    acp.init()
    for size, count in ((8, 2000), (4096, 400), (MIB, 10)):
        for order in ("first", "last"):
            print(f"{count} messages of {size} bytes, {order}", flush=True)
            flood(size, count, order)
    acp.finalize()


def flood(size, count, order):
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
    acp.sync()


@pytest.mark.parametrize("road", launch.ROADS)
def test_a_flood_stays_within_its_bound_and_loses_nothing(passes, road):
    passes(
        [*launch.mpiexec(3), *launch.program(floods)],
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


def wait_behind_a_flood():
    """What a full mailbox has no room for can be taken back."""
    acp.init()
    if acp.rank() > 0:
        sent = in_vain = 0
        while in_vain < 3:  # there is no room; one or two may only have been late
            request = acp.isend(sent, 0, 1)
            with contextlib.suppress(TimeoutError):
                request.wait(timeout=0.2)
            if request.cancel():
                in_vain += 1
            else:
                request.wait()
                sent, in_vain = sent + 1, 0
        last = acp.isend(-1, 0, 1)
        with pytest.raises(TimeoutError):
            acp.bcast(0, acp.rank(), ranks=[0, acp.rank()], timeout=0.2)
        acp.sync()
        acp.send(sent, 0, 2)
        last.wait()
    else:
        acp.sync()
        for source in range(1, acp.procs()):
            with pytest.raises(acp.Error, match=f"rank {source} has left it"):
                acp.bcast(None, source, ranks=[0, source])
            sent = acp.recv(source=source, tag=2)
            assert [acp.recv(source=source, tag=1) for _ in range(sent + 1)] == [*range(sent), -1]
    acp.finalize()


@pytest.mark.parametrize("road", launch.ROADS)
def test_what_waits_behind_a_flood_can_be_taken_back(passes, road):
    passes(
        [*launch.mpiexec(3), *launch.program(wait_behind_a_flood)],
        launch.ROADS[road] | {"ACP_UNEXPECTED_MAX": "64K"},
    )


def send_without_memory():
    """No heap has room for the bytes: they wait for a receive, and can be taken back until then."""
    import numpy as np

    acp.init(heap_size=8 * MIB)
    room = np.zeros(24 * MIB, np.uint8)
    if acp.rank() > 0:
        room[:] = acp.rank()
        with pytest.raises(TimeoutError):
            acp.send(room, 0, 1, timeout=0.2)
        with pytest.raises(TimeoutError):
            acp.bcast(room, acp.rank(), out=(), ranks=[0, acp.rank()], timeout=0.2)
        request = acp.isend(room, 0, 1)
        acp.sync()
        request.wait()
        acp.isend(room, 0, 2)
    else:
        acp.sync()
        for source in range(1, acp.procs()):
            with pytest.raises(acp.Error, match=f"rank {source} has left it"):
                acp.bcast((), source, out=room, ranks=[0, source])
            assert (acp.recv(room, source, 1) == source).all()
    acp.finalize()


WITHOUT_BLOCKS = [road for road in launch.ROADS if road != "owner"]  # who may write to no buffer


@pytest.mark.parametrize("road", WITHOUT_BLOCKS)
def test_a_long_message_needs_no_memory_but_that_of_its_receive(passes, road):
    passes([*launch.mpiexec(3), *launch.program(send_without_memory)], launch.ROADS[road])


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
