"""Messages: what mpi4py's communicator does, ours does."""

import numpy as np
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def test_objects_go_around(MPI, world):
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    status = MPI.Status()
    found = world.sendrecv({"from": world.rank}, right, 3, source=left, recvtag=3, status=status)
    assert found == {"from": left}
    assert (status.Get_source(), status.Get_tag()) == (left, 3)


@pytest.mark.parametrize("count", [0, 1, 1000, 100_000])
def test_buffers_go_around(MPI, world, count):
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    sent, found = np.arange(count) + world.rank, np.zeros(count, int)
    requests = [world.Irecv(found, left), world.Isend(sent, right)]
    statuses = []
    MPI.Request.Waitall(requests, statuses)
    assert statuses[0].Get_count(MPI.INT64_T) == count
    assert requests == [MPI.REQUEST_NULL] * 2
    assert (found == np.arange(count) + left).all()


@pytest.mark.parametrize("name", ["Sendrecv_replace", "Isendrecv_replace"])
def test_what_comes_takes_the_place_of_what_was_sent(MPI, world, name):
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    data = np.arange(100.0) + world.rank
    request = getattr(world, name)(data, right, 3, left, 3)
    if request is not None:
        request.Wait()
    assert (data == np.arange(100.0) + left).all()


def test_a_column_is_sent_by_its_datatype(MPI, world):
    kind = MPI.DOUBLE.Create_vector(4, 1, 5).Commit()
    table = np.arange(20.0).reshape(4, 5) * (world.rank + 1)
    found = np.zeros(4)
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    world.Sendrecv([table.ravel()[2:], 1, kind], right, 0, found, left, 0)
    assert (found == np.arange(20.0).reshape(4, 5)[:, 2] * (left + 1)).all()
    kind.Free()


def test_a_datatype_may_be_freed_while_an_operation_is_under_way(MPI, world):
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    table, found = np.arange(20.0) * (world.rank + 1), np.zeros(20)
    kind = MPI.DOUBLE.Create_vector(4, 1, 5).Commit()
    received = world.Irecv([found, 1, kind], left)
    again = world.Send_init([table, 1, kind], right)
    kind.Free()
    again.Start()
    again.Wait()
    received.Wait()
    again.Free()
    assert (found[::5] == np.arange(20.0)[::5] * (left + 1)).all()
    assert not found.reshape(4, 5)[:, 1:].any()


def test_the_datatype_of_a_persistent_collective_may_be_freed(MPI, several):
    """Open MPI 5.0.11 ends in a segmentation fault here."""
    table = np.arange(20.0) * (several.rank + 1)
    kind = MPI.DOUBLE.Create_vector(4, 1, 5).Commit()
    again = several.Bcast_init([table, 1, kind])
    kind.Free()
    again.Start()
    again.Wait()
    again.Free()
    assert (table[::5] == np.arange(20.0)[::5]).all()
    assert (table[1::5] == np.arange(20.0)[1::5] * (several.rank + 1)).all()


@pytest.mark.parametrize("probe", ["probe", "iprobe"])
def test_a_message_class_finds_objects(MPI, world, probe):
    sent = world.isend({"a": 1}, world.rank, 5)
    message = None
    while message is None:
        message = getattr(MPI.Message, probe)(world, world.rank, 5)
    assert message.recv() == {"a": 1}
    assert message == MPI.MESSAGE_NULL
    sent.wait()


@pytest.mark.parametrize("probe", ["mprobe", "Mprobe", "improbe", "Improbe"])
def test_a_message_from_nobody_is_null_when_it_is_received(MPI, world, probe):
    message = getattr(world, probe)(MPI.PROC_NULL)
    assert message == MPI.MESSAGE_NO_PROC
    message.recv() if probe.islower() else message.Recv([None, MPI.BYTE])
    assert message == MPI.MESSAGE_NULL
    assert MPI.MESSAGE_NO_PROC != MPI.MESSAGE_NULL


MODES = ["Send", "Bsend", "Rsend", "Ssend", "send", "bsend", "ssend"]
STARTED = ["Isend", "Ibsend", "Irsend", "Issend", "isend", "ibsend", "issend"]
AGAIN = ["Send_init", "Bsend_init", "Rsend_init", "Ssend_init"]


@pytest.mark.parametrize("mode", [*MODES, *STARTED, *AGAIN])
def test_each_mode_of_sending_arrives(MPI, world, mode):
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    sent, found = np.arange(5.0) + world.rank, np.zeros(5)
    if "bsend" in mode.lower():
        MPI.Attach_buffer(bytearray(10_000 + MPI.BSEND_OVERHEAD))
    received = world.irecv(source=left) if mode.islower() else world.Irecv(found, left)
    world.Barrier()  # a ready send has its receive
    request = getattr(world, mode)(sent, right)
    if mode in AGAIN:
        request.Start()
    if mode in (*STARTED, *AGAIN):
        request.wait()
    got = received.wait()
    assert np.array_equal(got if mode.islower() else found, np.arange(5.0) + left)
    if mode in AGAIN:
        request.Free()
    if "bsend" in mode.lower():
        MPI.Detach_buffer()


def test_synchronous_sends_end_when_both_sides_wait_for_theirs(MPI, world):
    other = world.size - 1 - world.rank
    requests = [world.issend(world.rank, other), world.irecv(source=other)]
    assert MPI.Request.waitall(requests)[1] == other


def test_a_message_that_was_found_is_received_by_nobody_else(MPI, world):
    requests = [world.isend(text, world.rank, 1) for text in ("first", "second")]
    status = MPI.Status()
    message = world.mprobe(tag=1, status=status)
    assert status.Get_source() == world.rank
    assert world.recv(tag=1) == "second"
    assert message.recv() == "first"
    assert message == MPI.MESSAGE_NULL
    MPI.Request.waitall(requests)
    assert world.improbe(tag=1) is None
    assert not world.iprobe(tag=1)


def test_a_persistent_request_starts_again(MPI, world):
    data, found = np.zeros(3), np.zeros(3)
    requests = [world.Recv_init(found, world.rank, 5), world.Send_init(data, world.rank, 5)]
    for turn in range(3):
        data[:] = turn
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        assert (found == turn).all()
    for request in requests:
        request.Free()


def test_a_receive_that_met_nothing_can_be_taken_back(MPI, world):
    request, status = world.Irecv(bytearray(8), world.rank, 9), MPI.Status()
    request.Cancel()
    request.Wait(status)
    assert status.Is_cancelled()


def test_a_message_is_too_long(MPI, world):
    request = world.Isend(np.zeros(9), world.rank, 2)
    with pytest.raises(MPI.Exception) as caught:
        world.Recv(np.zeros(8), world.rank, 2)
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
    request.Wait()


@pytest.mark.parametrize(("rank", "tag", "code"), [(99, 0, "ERR_RANK"), (0, -5, "ERR_TAG")])
def test_there_is_no_such_rank_or_tag(MPI, world, rank, tag, code):
    with pytest.raises(MPI.Exception) as caught:
        world.send(None, rank, tag)
    assert caught.value.Get_error_class() == getattr(MPI, code)


def test_a_send_that_is_refused_leaves_no_receive_behind(MPI, world):
    room, found = np.zeros(2), np.zeros(2)
    for call in (
        lambda: world.Sendrecv(found, 99, 0, room, world.rank, 4),
        lambda: world.Isendrecv(found, 99, 0, room, world.rank, 4),
        lambda: world.sendrecv(None, 99, 0, None, world.rank, 4),
    ):
        with pytest.raises(MPI.Exception) as caught:
            call()
        assert caught.value.Get_error_class() == MPI.ERR_RANK
    request = world.Isend(np.ones(2), world.rank, 4)
    world.Recv(found, world.rank, 4)
    request.Wait()
    assert found.tolist() == [1, 1]
    assert not room.any()


def test_who_waits_for_all_has_all_when_one_has_failed(MPI, several):  # Open MPI says nothing
    short, found = np.zeros(8), np.zeros(2)
    requests = [several.Irecv(short, several.rank, 2), several.Irecv(found, several.rank, 3)]
    sends = [
        several.Isend(np.zeros(9), several.rank, 2),
        several.Isend(np.ones(2), several.rank, 3),
    ]
    with pytest.raises(MPI.Exception):
        MPI.Request.Waitall(requests)
    assert requests[1] == MPI.REQUEST_NULL
    assert found.tolist() == [1, 1]
    MPI.Request.Waitall(sends)


def test_both_at_once_say_that_a_message_is_too_long(MPI, several):  # MPICH does not
    request = several.Isendrecv(np.zeros(9), several.rank, 2, np.zeros(8), several.rank, 2)
    with pytest.raises(MPI.Exception) as caught:
        request.Wait()
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE


def test_communicators_of_one_group_do_not_hear_each_other(MPI, world):
    group = world.Get_group()
    first, second = (world.Create_group(group, 5) for _ in range(2))
    request = first.isend("first", first.rank, 1)
    assert not second.iprobe(tag=1)
    assert first.recv(tag=1) == "first"
    request.wait()
    for each in (group, first, second):
        each.Free()


def test_messages_for_nobody(MPI, world):
    world.send("lost", MPI.PROC_NULL)
    status = MPI.Status()
    assert world.recv(source=MPI.PROC_NULL, status=status) is None
    assert status.Get_source() == MPI.PROC_NULL


def test_requests_of_both_kinds_are_waited_for_together(MPI, world):
    found = np.zeros(2)
    requests = [
        MPI.COMM_SELF.irecv(source=0),
        world.Irecv(found[:1], world.rank),
        MPI.COMM_SELF.isend("own", 0),
        world.Isend(np.ones(1), world.rank),
    ]
    left = set(range(4))
    while left:
        left -= set(MPI.Request.waitsome(requests)[0])
    assert requests == [MPI.REQUEST_NULL] * 4
    assert found[0] == 1


def test_what_starts_again_is_refused_when_it_is_made(MPI, world):
    room, rank = np.zeros(2), world.rank
    for make in (world.Send_init, world.Ssend_init, world.Bsend_init, world.Rsend_init):
        for given, code in (((room, 99), MPI.ERR_RANK), ((room, rank, -5), MPI.ERR_TAG)):
            with pytest.raises(MPI.Exception) as caught:
                make(*given)
            assert caught.value.Get_error_class() == code
        with pytest.raises(TypeError):
            make(5, rank)
        make(None, MPI.PROC_NULL).Free()
    for given, code in (((room, 99), MPI.ERR_RANK), ((room, rank, -7), MPI.ERR_TAG)):
        with pytest.raises(MPI.Exception) as caught:
            world.Recv_init(*given)
        assert caught.value.Get_error_class() == code
    with pytest.raises(BufferError):
        world.Recv_init(bytes(4), rank)
    world.Recv_init(None, MPI.PROC_NULL).Free()


class ByDLPack:
    """What gives its memory in no other way."""

    def __init__(self, array, device=None):
        self._array, self._device = array, device

    def __dlpack__(self, **named):
        return self._array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self._device or self._array.__dlpack_device__()


@pytest.mark.parametrize("kind", ["M8[s]", "m8[us]"])
def test_dates_travel_as_whole_numbers(MPI, world, kind):
    sent, found = np.arange(3).astype(kind), np.zeros(3, kind)
    sides = world.rank, 0
    world.Sendrecv([sent, MPI.INT64_T], *sides, [found, MPI.INT64_T], *sides)
    assert (found == sent).all()


@pytest.mark.parametrize("datatype", [(), ("d",)])
def test_memory_of_the_host_may_come_by_dlpack(world, datatype):
    sent, found = np.arange(3.0), np.zeros(3)
    given, room = ([ByDLPack(array), *datatype] for array in (sent, found))
    if not datatype:
        (given,), (room,) = given, room
    world.Sendrecv(given, world.rank, 0, room, world.rank, 0)
    assert (found == sent).all()


def test_memory_of_a_device_is_refused(several):
    cuda = 2
    with pytest.raises(TypeError, match="copy what is on a device"):
        several.Send([ByDLPack(np.zeros(2), (cuda, 0)), "d"], several.rank)


@pytest.mark.parametrize("thing", ["text", [1, 2], {"a": 1}, 7])
def test_what_is_no_buffer_is_refused(several, thing):
    with pytest.raises(TypeError, match=r"expecting a buffer, got \w+; objects go with"):
        several.Send(thing, several.rank)


@pytest.mark.parametrize("number", [0.0, None, "0"])
def test_ranks_and_tags_are_whole_numbers(several, number):
    for call, name in (
        (lambda: several.send(1, number), "rank"),
        (lambda: several.recv(source=number), "rank"),
        (lambda: several.send(1, 0, number), "tag"),
        (lambda: several.iprobe(0, number), "tag"),
        (lambda: several.bcast(1, number), "root"),
        (lambda: several.Bcast(np.zeros(1), number), "root"),
    ):
        with pytest.raises(TypeError, match=f"{name}={number!r} is not a whole number"):
            call()


def test_no_message_is_lost_to_what_is_no_status(MPI, world):
    rank, room = world.rank, np.zeros(1)
    sent = world.isend("kept", rank, 1)
    for call in (
        lambda: world.recv(source=rank, tag=1, status=5),
        lambda: world.Recv(room, rank, 1, 5),
        lambda: world.mprobe(rank, 1, 5),
        lambda: world.improbe(rank, 1, 5),
    ):
        with pytest.raises(TypeError):
            call()
    message = world.mprobe(rank, 1)
    with pytest.raises(TypeError):
        message.recv(5)
    assert message.recv() == "kept"
    sent.wait()


def used():
    """Bytes of this rank's heap."""
    return acp.heap_statistics(acp.rank()).used


def send_many(comm):
    for i in range(8):
        comm.send(b"x" * 200_000, (comm.rank + 1) % comm.size, i)


@pytest.mark.parametrize("end", ["Free", "Disconnect"])
def test_messages_that_nobody_receives_end_with_their_communicator(several, end):
    before = used()
    several.Barrier()
    comm = several.Dup()
    posted = comm.irecv(source=several.rank, tag=99)
    send_many(comm)
    while used() <= before + 1_000_000:  # by link a long message may come after a barrier
        pass
    comm.send("kept", several.rank, 99)
    getattr(comm, end)()
    assert posted.wait() == "kept"
    while used() > before + 100_000:  # what keeps envelopes stays
        pass
    several.Barrier()


def test_messages_that_come_when_a_communicator_has_ended_are_dropped(several):
    before = used()
    several.Barrier()
    comm = several.Dup()
    if several.rank == 0:
        comm.Free()
    several.Barrier()
    if several.rank:
        send_many(comm)
        comm.Free()
    several.Barrier()
    while used() > before + 100_000:
        pass
    several.Barrier()
