"""Messages of the rendezvous: what somebody on the way makes of them is refused."""

import pytest
from arriving import SECRET, whole

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import handshake, visitor
from acp_mpi.job.rendezvous.connector import join
from acp_mpi.job.rendezvous.messages import Kind, check, message
from acp_mpi.job.rendezvous.secret import job_id
from acp_mpi.job.rendezvous.server import Server

JOB = job_id(SECRET)
PAYLOADS = [b"", b"a", bytes(range(256)), bytes(100_001)]


def pair():
    """Return both sides of a connection, member and rendezvous, after their handshake."""
    none = handshake.NO_SLOT
    member = handshake.calling(SECRET, JOB, handshake.Role.MEMBER, none, none, 0)
    server = handshake.called(SECRET, JOB)
    on_the_way = {member: b"", server: b""}
    while member.wants() or server.wants():
        for one, other in ((member, server), (server, member)):
            on_the_way[other] += one.out()
            size = other.wants()
            if size and len(on_the_way[other]) >= size:
                other.feed(on_the_way[other][:size])
                on_the_way[other] = on_the_way[other][size:]
    assert not member.refusal
    assert not server.refusal
    return member, server


@pytest.mark.parametrize("payload", PAYLOADS, ids=len)
def test_messages_go_both_ways(payload):
    member, server = pair()
    for number in range(3):
        check(server, *message(member, Kind.ANNOUNCE, payload + bytes(number)))
        check(member, *message(server, Kind.TABLE, payload))


@pytest.mark.parametrize("payload", PAYLOADS[:3], ids=len)
def test_every_byte_of_a_message_counts(payload):
    for piece in range(3):
        for place in range(len(message(pair()[0], Kind.TABLE, payload)[piece])):
            member, server = pair()
            pieces = [bytearray(one) for one in message(server, Kind.TABLE, payload)]
            pieces[piece][place] ^= 1
            with pytest.raises(Error, match="changed, on the way"):
                check(member, *pieces)


def test_a_message_that_is_left_out_repeated_reflected_or_another_connection_s_is_refused():
    def is_refused(made):
        member, server = pair()
        with pytest.raises(Error, match="changed, on the way"):
            check(member, *made(member, server))

    def left_out(_, server):
        message(server, Kind.TABLE, b"table")
        return message(server, Kind.TABLE, b"table")

    def repeated(member, server):
        first = message(server, Kind.TABLE, b"table")
        check(member, *first)
        return first

    is_refused(left_out)
    is_refused(repeated)
    is_refused(lambda member, _: message(member, Kind.TABLE, b"table"))
    is_refused(lambda *_: message(pair()[1], Kind.TABLE, b"table"))


def test_a_code_takes_a_connection_with_keys():
    new = handshake.called(SECRET, JOB)
    with pytest.raises(ValueError, match="not done"):
        new.code(b"head", b"")
    with pytest.raises(ValueError, match="long head"):
        pair()[0].code(bytes(65), b"")


def test_a_member_refuses_a_table_that_was_changed_on_the_way(monkeypatch):
    true = visitor.message

    def changed(side, kind, payload):
        header, payload, code = true(side, kind, payload)
        return header, payload[:-1] + bytes([payload[-1] ^ 1]), code

    monkeypatch.setattr(visitor, "message", changed)
    with Server(SECRET, 1) as server, pytest.raises(Error, match="changed, on the way"):
        join(server.address, SECRET, "a", 1, False, whole("a", 1))
