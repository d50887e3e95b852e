"""The opening of a connection, over real sockets."""

import contextlib
import os
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from acp_mpi.config import LINKS
from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import handshake, secret
from acp_mpi.job.rendezvous.announcement import own
from acp_mpi.job.rendezvous.handshake import Role
from acp_mpi.job.rendezvous.secret import job_id

SECRET = bytes(range(32))
JOB = job_id(SECRET)
OTHER = bytes(32)
NONCE = 0x0123456789ABCDEF


@contextlib.contextmanager
def ends():
    a, b = socket.socketpair()
    with a, b:
        yield a, b


def soon(seconds=20.0):
    return time.monotonic() + seconds


def outcome(call, sock, *args, **kwargs):
    """What a side ends with; like a program, it closes its socket after an error."""
    try:
        return call(sock, *args, deadline=soon(), **kwargs)
    except (Error, PermissionError) as reason:
        sock.close()
        return reason


def driven(sock, side, *, deadline):
    handshake.drive(sock, handshake.steps(side), deadline)
    return side


def serve(sock, secret, job, slot=7, *, deadline):
    return driven(sock, handshake.called(secret, job, slot), deadline=deadline)


def meet(*, server_secret=SECRET, server_job=JOB, server_slot=7, role=Role.LINK, want=7):
    with ends() as (a, b), ThreadPoolExecutor(1) as pool:
        server = pool.submit(outcome, serve, b, server_secret, server_job, server_slot)
        client = outcome(
            handshake.client, a, SECRET, JOB, role=role, slot=3, want=want, process_nonce=NONCE
        )
        return client, server.result()


def test_both_sides_agree_and_the_server_learns_who_came():
    client, server = meet()
    assert isinstance(client, _engine.Handshake)
    assert server.peer == (Role.LINK, 3, NONCE)


def test_the_rendezvous_serves_members():
    _, server = meet(role=Role.MEMBER, want=handshake.NO_SLOT, server_slot=handshake.NO_SLOT)
    assert server.peer == (Role.MEMBER, 3, NONCE)


def test_bytes_behind_the_handshake_are_left_for_the_frames():
    with ends() as (a, b), ThreadPoolExecutor(1) as pool:
        server = pool.submit(serve, b, SECRET, JOB, deadline=soon())
        handshake.client(a, SECRET, JOB, role=Role.LINK, slot=3, want=7, deadline=soon())
        a.sendall(b"frame")
        server.result()
        assert handshake.receive(b, 5, soon()) == b"frame"


def test_what_has_come_counts_though_the_time_is_up():
    """Who reads it may have been stopped since."""
    with ends() as (a, b):
        a.sendall(b"frame")
        assert handshake.receive(b, 5, deadline=0.0) == b"frame"
        with pytest.raises(TimeoutError):
            handshake.receive(b, 1, deadline=0.0)


def test_another_secret_is_a_permission_error_at_both_sides():
    client, server = meet(server_secret=OTHER, server_job=job_id(OTHER))
    assert isinstance(client, PermissionError)
    assert isinstance(server, PermissionError)
    assert "secret" in str(client)


def test_a_server_that_only_claims_the_job_is_found_out():
    client, server = meet(server_secret=OTHER)
    assert isinstance(client, PermissionError)
    assert isinstance(server, Error)  # the client went without a proof


def test_a_client_that_only_claims_the_job_is_found_out():
    with ends() as (a, b), ThreadPoolExecutor(1) as pool:
        server = pool.submit(outcome, serve, b, SECRET, JOB)
        steps = handshake.steps(handshake.calling(OTHER, JOB, Role.LINK, 3, 7, NONCE))
        hello, _ = next(steps)
        a.sendall(hello)
        handshake.receive(a, 76, soon())
        a.sendall(b"ACPP" + bytes(36))
        assert isinstance(server.result(), PermissionError)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"server_slot": 8}, "another rank"),
        ({"server_slot": handshake.NO_SLOT}, "rendezvous"),
        ({"role": Role.MEMBER}, "rendezvous"),
    ],
)
def test_a_refusal_names_its_reason_at_both_sides(changes, words):
    client, server = meet(**changes)
    assert words in str(client)
    assert str(client) == str(server)


def test_sides_with_other_acp_links_are_told_so():
    with ends() as (a, b), ThreadPoolExecutor(1) as pool:
        left = _engine.Handshake(SECRET, JOB, 7, LINKS["mac"])
        right = _engine.Handshake(SECRET, JOB, 3, LINKS["crc"], role=Role.LINK, want=7)
        server = pool.submit(outcome, driven, b, left)
        client = outcome(driven, a, right)
        assert "set ACP_LINKS alike" in str(client)
        assert str(client) == str(server.result())
        assert right.links == (LINKS["crc"], LINKS["mac"])


def test_groups_with_other_acp_links_are_told_so():
    words = own("mac").refusal("group 'a'", own(), "group 'b'")
    assert words.startswith("group 'a' has ACP_LINKS=mac, and group 'b' (unset): set it alike")
    assert own("mac").refusal("group 'a'", own("mac"), "group 'b'") is None


@pytest.mark.parametrize("garbage", [b"G", b"ACPX", b"ACPC", b"\x00", b"ACPH\x01"])
def test_garbage_is_refused_at_its_first_wrong_byte(garbage):
    with ends() as (a, b):
        a.sendall(garbage)  # and stays open: nothing more is waited for
        with pytest.raises(Error):
            serve(b, SECRET, JOB, deadline=soon())


def test_random_bytes_never_pass():
    source = random.Random(5)
    for _ in range(300):
        hello = handshake.calling(SECRET, JOB, Role.LINK, 3, 7, NONCE).out()
        keep = source.randrange(73)
        data = hello[:keep] + source.randbytes(200)
        steps = handshake.steps(handshake.called(SECRET, JOB, 7))
        _, size = next(steps)
        with pytest.raises((Error, PermissionError)):  # noqa: PT012
            while True:
                piece, data = data[:size], data[size:]
                _, size = steps.send(piece)


def test_silence_ends_at_the_deadline():
    with ends() as (_, b), pytest.raises(TimeoutError):
        serve(b, SECRET, JOB, deadline=soon(0.05))


def test_trickled_bytes_do_not_extend_the_deadline():
    with ends() as (a, b):
        over = threading.Event()

        def trickle():
            for byte in b"ACPH" + bytes([handshake.VERSION]) + bytes(60):
                a.send(bytes([byte]))
                if over.wait(0.02):
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            with pytest.raises(TimeoutError):
                serve(b, SECRET, JOB, deadline=soon(0.2))
        finally:
            over.set()
            thread.join()


def test_a_secret_file_is_private_and_never_overwritten(tmp_path):
    path = tmp_path / "secret"
    made = secret.create(path)
    assert len(made) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_text().strip()) == 64
    with pytest.raises(FileExistsError):
        secret.create(path)
    assert secret.load({"ACP_SECRET_FILE": str(path), "ACP_SECRET": "ignored"}) == made
    assert secret.load({"ACP_SECRET": made.hex()}) == made


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_secret_file_open_to_others_is_refused(tmp_path, mode):
    path = tmp_path / "secret"
    secret.create(path)
    os.chmod(path, mode)
    with pytest.raises(PermissionError, match="chmod 600"):
        secret.load({"ACP_SECRET_FILE": str(path)})


@pytest.mark.parametrize(
    "content", ["", "00" * 31, "00" * 33, "zz" * 32, "é" * 32, "00  " + "00" * 30]
)
def test_what_is_no_secret_is_refused_and_not_shown(tmp_path, content):
    path = tmp_path / "secret"
    secret.create(path)
    path.write_text(content)
    for environ in ({"ACP_SECRET_FILE": str(path)}, {"ACP_SECRET": content}):
        with pytest.raises(Error) as caught:
            secret.load(environ)
        assert not content or content not in str(caught.value)


def test_a_missing_secret_says_what_to_set(tmp_path):
    with pytest.raises(Error, match="ACP_SECRET_FILE"):
        secret.load({})
    with pytest.raises(Error, match="No such file"):
        secret.load({"ACP_SECRET_FILE": str(tmp_path / "none")})
