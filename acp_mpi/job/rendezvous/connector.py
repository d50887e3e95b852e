"""The member's side of the rendezvous: announce rows, wait, receive the table."""

from __future__ import annotations

import os
import time

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import handshake
from acp_mpi.job.rendezvous.address import parse_address, said_of
from acp_mpi.job.rendezvous.announcement import Announcement, own
from acp_mpi.job.rendezvous.connection import Connection, dial
from acp_mpi.job.rendezvous.membership import Membership
from acp_mpi.job.rendezvous.messages import Kind
from acp_mpi.job.rendezvous.secret import job_id
from acp_mpi.util import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# The rendezvous knows the missing members, so it speaks first when a member's time is up.
_LAST_WORD = 2.0

_PAUSE, _LONGEST_PAUSE = 0.02, 1.0  # between tries, doubled each time


def join(
    address: str,
    secret: bytes,
    group_name: str,
    size: int,
    has_mpi: bool,
    rows: Iterable[tuple[int, bytes]],
    timeout: float = 60.0,
    links: str = "",
) -> Membership:
    """Join a job with one's group, or with one's part of it, and return the whole table.

    `address` is "host:port" of the rendezvous, `rows` are the (group rank, 64 bytes) that the
    caller answers for: all of them if the group has MPI, and usually its own only if not. Returns
    when all groups of the job are complete; all callers receive the same table. A rendezvous that
    is not there yet is waited for.

    Raises PermissionError if its secret is another, TimeoutError after `timeout` seconds with the
    missing ones, Error if it refuses, which includes that another process has this rank already, or
    if a group of the job has ended instead of joining.
    """
    deadline = time.monotonic() + timeout
    origin = f"{os.uname().nodename} pid {os.getpid()}"
    build = own(links)
    announcement = Announcement(group_name, size, has_mpi, tuple(rows), timeout, origin, build)
    ended: Error | None = None
    while True:
        sock, side = _enter(address, secret, deadline, group_name, timeout, ended)
        with sock:
            try:
                patience = max(deadline - time.monotonic(), 0.0)
                announcement.patience = patience
                packed = announcement.pack()
                handshake.send_message(sock, side, Kind.ANNOUNCE, packed, deadline)
                kind, payload = handshake.receive_message(sock, side, deadline + _LAST_WORD)
                break
            except TimeoutError as reason:
                raise _no_answer(address, group_name, timeout, reason) from reason
            except ConnectionError as reason:
                # a member that was slow to prove itself has been dropped, and learns it only now
                text = f"it ended before all groups had come ({reason})"
                ended = _failed(address, group_name, text)
            except (Error, OSError) as reason:
                raise _failed(address, group_name, reason) from reason
        time.sleep(_PAUSE)
    if kind == Kind.TABLE:
        return Membership.unpack(payload)
    text = payload.decode(errors="replace")
    if kind == Kind.EXPIRED:
        raise TimeoutError(f"the rendezvous at {address} gave up: {text}")
    if kind == Kind.FAILED:
        raise Error(f"group {group_name!r} cannot join, for the job will not be complete: {text}")
    raise Error(f"the rendezvous at {address} refused group {group_name!r}: {text}")


def _enter(
    address: str,
    secret: bytes,
    deadline: float,
    group_name: str,
    timeout: float,
    ended: Error | None,
) -> tuple[Connection, _engine.Handshake]:
    """Return a connection on which both sides have proved themselves, and this side of it.

    Raises `ended`, if given, when the listener has gone.
    """
    job, pause = job_id(secret), _PAUSE
    while True:
        sock = _connect(address, deadline, ended)
        try:
            role = handshake.Role.MEMBER
            return sock, handshake.client(sock, secret, job, role=role, deadline=deadline)
        except handshake.Broken as reason:
            # a rendezvous in a crowd lets the slow ones go, and its end is seen by the next try
            sock.close()
            left = deadline - time.monotonic()
            if left <= 0:
                raise _failed(address, group_name, reason) from reason
            text = "the rendezvous at %s let go of us (%s): trying again"
            log.info("spawn", text, address, reason)
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
        except TimeoutError as reason:
            sock.close()
            raise _no_answer(address, group_name, timeout, reason) from reason
        except PermissionError as reason:
            sock.close()
            raise PermissionError(f"the rendezvous at {address}: {reason}") from reason
        except (Error, OSError) as reason:
            sock.close()
            raise _failed(address, group_name, reason) from reason


def _no_answer(address: str, group_name: str, timeout: float, reason: object) -> TimeoutError:
    return TimeoutError(
        f"the rendezvous at {address} did not answer group {group_name!r} "
        f"within {timeout:g} s: {reason}"
    )


def _failed(address: str, group_name: str, reason: object) -> Error:
    return Error(
        f"group {group_name!r} could not join through the rendezvous at {address}: {reason}"
    )


def _connect(address: str, deadline: float, ended: Error | None) -> Connection:
    where = parse_address(address)
    pause = _PAUSE
    while True:
        try:
            return dial(where, max(deadline - time.monotonic(), 0.01))
        except ConnectionRefusedError:
            if ended is not None:
                raise ended from None
            refusal = "connection refused"
        except TimeoutError:
            refusal = "no answer"
        except OSError as reason:
            raise Error(
                f"the rendezvous at {address} cannot be reached: {said_of(where[0], reason)}; is "
                "that where the job meets? ACP_RENDEZVOUS, or the first row of a Portfile, says it"
            ) from reason
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(
                f"the rendezvous at {address} cannot be reached: {refusal}; is it running, and is "
                "that where the job meets? ACP_RENDEZVOUS, or the first row of a Portfile, says it"
            )
        if pause == _PAUSE:
            text = "no rendezvous at %s yet (%s): trying on for %.0f s"
            log.info("spawn", text, address, refusal, left)
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
