"""The place where the groups of a job find each other: a small server that holds the table."""

import asyncio
import concurrent.futures
import contextlib
import logging
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from acp_mpi.errors import Error
from acp_mpi.spawn import handshake
from acp_mpi.spawn.connector import (
    HEADER_SIZE,
    Kind,
    check_payload,
    format_address,
    message,
    parse_address,
    parse_header,
)
from acp_mpi.spawn.membership import Announcement, Membership, Roll

_log = logging.getLogger("acp_mpi.spawn")

HANDSHAKE_TIMEOUT = 5.0
PENDING_MAX = 256  # connections that have not proved themselves; more wait in the kernel's queue
_LEAVE_TIMEOUT = 5.0  # for members to read that time is up


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of what a rendezvous has seen."""

    members: int  # waiting for the others, or not yet gone with the table
    pending: int  # connections in the handshake
    dropped: int  # connections that did not prove themselves
    refused: int  # members that did and still could not join


class Server:
    """Listen for the groups of a job and give the table to all when the last is there.

    `groups` is how many there will be, or their names and sizes in the order of their slots.
    `listen` is "host:port", port 0 any free one. `timeout` seconds after its start the server
    gives up and tells everybody who is missing. Runs in a thread of its own from construction to
    `close`, asleep while nothing arrives.
    """

    def __init__(
        self,
        secret: bytes,
        groups: int | Mapping[str, int],
        *,
        listen: str = "127.0.0.1:0",
        timeout: float = 60.0,
    ) -> None:
        self._secret, self._job = secret, handshake.job_id(secret)
        self._roll, self._roll_lock = Roll(groups), threading.Lock()
        self._timeout = timeout
        host, port = parse_address(listen)
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listener = socket.create_server((host, port), family=family, backlog=1024)
        except OSError as reason:
            raise Error(f"the rendezvous cannot listen on {listen}: {reason.strerror}") from reason
        self._listener.setblocking(False)
        self.address = format_address(*self._listener.getsockname()[:2])
        self._members: set[asyncio.Task[None]] = set()
        self._pending = self._dropped = self._refused = 0
        self._outcome: concurrent.futures.Future[Membership] = concurrent.futures.Future()
        started = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="acp-rendezvous", daemon=True
        )
        self._thread.start()
        started.wait()

    def wait(self, timeout: float | None = None) -> Membership:
        """Return the table once all members have received it and left.

        Raises TimeoutError with who is missing when the server or this call runs out of time.
        """
        try:
            return self._outcome.result(timeout)
        except TimeoutError:
            if self._outcome.done():
                raise
            with self._roll_lock:
                report = self._roll.report()
            raise TimeoutError(
                f"not all have joined and left within {timeout:g} s; {report}"
            ) from None

    def close(self) -> None:
        """Stop serving; whoever still waits sees the connection break."""
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    @property
    def closed(self) -> bool:
        """Whether the server has ended, by `close` or because all have left."""
        return not self._thread.is_alive()

    def statistics(self) -> Statistics:
        """Return counts of connections."""
        return Statistics(len(self._members), self._pending, self._dropped, self._refused)

    def __repr__(self) -> str:
        return f"<rendezvous at {self.address}{' (closed)' * self.closed}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- In the server's thread ------------------------------------------------------------

    def _run(self, started: threading.Event) -> None:
        try:
            table = asyncio.run(self._main(started))
        except asyncio.CancelledError:
            self._outcome.set_exception(Error("the rendezvous was closed"))
        except Exception as reason:
            self._outcome.set_exception(reason)
        else:
            self._outcome.set_result(table)

    async def _main(self, started: threading.Event) -> Membership:
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._verdict: asyncio.Future[tuple[Kind, bytes]] = self._loop.create_future()
        started.set()
        with self._listener:
            accepting = asyncio.create_task(self._accept())
            try:
                return await self._serve()
            finally:
                # it must be out of the socket before that is closed
                accepting.cancel()
                await asyncio.wait({accepting})

    async def _serve(self) -> Membership:
        await asyncio.wait({self._verdict}, timeout=self._timeout)
        if not self._verdict.done():
            reason = f"the job was not complete within {self._timeout:g} s; {self._roll.report()}"
            self._verdict.set_result((Kind.EXPIRED, reason.encode()))
            if self._members:
                await asyncio.wait(self._members, timeout=_LEAVE_TIMEOUT)
            raise TimeoutError(reason)
        while self._members:
            await asyncio.wait(self._members)
        return self._table

    async def _accept(self) -> None:
        room = asyncio.Semaphore(PENDING_MAX)
        meetings = set()  # the loop itself holds tasks only weakly
        while True:
            await room.acquire()
            try:
                sock, peer = await self._loop.sock_accept(self._listener)
            except OSError as reason:  # out of descriptors: some will be given back
                _log.warning("the rendezvous cannot accept a connection: %s", reason)
                room.release()
                await asyncio.sleep(1.0)
                continue
            meeting = asyncio.create_task(self._meet(sock, format_address(*peer[:2]), room))
            meetings.add(meeting)
            meeting.add_done_callback(meetings.discard)

    async def _meet(self, sock: socket.socket, address: str, room: asyncio.Semaphore) -> None:
        self._pending += 1
        reader, writer = await asyncio.open_connection(sock=sock)
        try:
            try:
                await self._prove(reader, writer)
            finally:
                self._pending -= 1
                room.release()
            await self._host(reader, writer, address)
        except (Error, OSError, EOFError) as reason:
            # strangers come here, and members whose connection broke; nobody else is disturbed
            self._dropped += 1
            _log.warning("connection from %s dropped: %s", address, reason)
        except asyncio.CancelledError:
            writer.transport.abort()  # the loop ends: no time to send what is left
            raise
        finally:
            writer.close()

    async def _prove(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        steps = handshake.server_steps(self._secret, self._job, handshake.NO_SLOT)
        out, size = next(steps)
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT):
                with contextlib.suppress(StopIteration):
                    while True:
                        writer.write(out)
                        out, size = steps.send(await reader.readexactly(size))
        except TimeoutError:
            raise TimeoutError(f"no handshake within {HANDSHAKE_TIMEOUT:g} s") from None

    async def _host(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        kind, length, check = parse_header(await reader.readexactly(HEADER_SIZE))
        if kind != Kind.ANNOUNCE:
            raise Error(f"expected an announcement, and {kind.name} came")
        member = Announcement.unpack(check_payload(await reader.readexactly(length), check))
        try:
            self._enter(member, f"{member.origin} ({address})")
        except Error as reason:
            self._refused += 1
            _log.warning("group %r from %s refused: %s", member.name, address, reason)
            writer.write(message(Kind.REFUSED, str(reason).encode()))
            await _leaving(reader)
            return
        task = asyncio.current_task()
        assert task is not None
        self._members.add(task)
        left = asyncio.create_task(_leaving(reader))
        events: set[asyncio.Future[Any]] = {left, self._verdict}
        try:
            await asyncio.wait(events, timeout=member.patience, return_when=asyncio.FIRST_COMPLETED)
            if self._verdict.done():
                writer.write(message(*self._verdict.result()))
            elif left.done():
                _log.warning(
                    "group %r from %s left before the job was complete", member.name, address
                )
                self._withdraw(member)
            else:
                report = f"waited {member.patience:.1f} s; {self._roll.report()}"
                self._withdraw(member)
                writer.write(message(Kind.EXPIRED, report.encode()))
            await left
        finally:
            left.cancel()
            self._members.discard(task)

    def _enter(self, member: Announcement, origin: str) -> None:
        if self._verdict.done():
            raise Error("the job is complete, and nobody else can join it")
        with self._roll_lock:
            self._roll.enter(member, origin)
        if self._roll.complete:
            self._table = self._roll.membership()
            self._verdict.set_result((Kind.TABLE, self._table.pack()))

    def _withdraw(self, member: Announcement) -> None:
        with self._roll_lock:
            self._roll.withdraw(member)


async def _leaving(reader: asyncio.StreamReader) -> None:
    """Return when a member ends the connection, or dies: it has nothing more to say."""
    with contextlib.suppress(ConnectionError):
        await reader.read(1)
