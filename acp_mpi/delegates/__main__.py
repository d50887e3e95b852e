"""The process of a delegate: `python -m acp_mpi.delegates`, as `acp.delegate` starts it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import traceback
from typing import Any

import acp_mpi as acp
from acp_mpi.delegates.ends import Ends
from acp_mpi.delegates.frames import COMMAND, FAILED, SHORT_FOLD, TAG, portable
from acp_mpi.delegates.nodes import is_of_other_node
from acp_mpi.delegates.server import Server
from acp_mpi.engine import _engine
from acp_mpi.job import membership
from acp_mpi.job.rendezvous.row import Process
from acp_mpi.util import processes

_END = -1  # in place of a rank


class Client(Ends):
    """A rank of this node."""

    def answer(self, number: int, kind: int, x: Any) -> None:
        """Send an answer; the rank may be gone."""
        with contextlib.suppress(acp.Error):
            self.say(number, kind, x)


class Reception(threading.Thread):
    """Takes in ranks and their commands, asleep where there are none."""

    def __init__(self, server: Server) -> None:
        super().__init__(name="delegate-reception", daemon=True)
        self._server = server
        self._clients: dict[acp.Channel, Client] = {}  # by the channel that commands come by
        self.changed = os.eventfd(0, os.EFD_CLOEXEC)  # a rank may have left

    def run(self) -> None:
        """Serve until `end`; without it the process is of no use, and ranks would wait for ever."""
        try:
            self._serve()
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _serve(self) -> None:
        door = acp.irecv(tag=TAG)
        channel: acp.Channel | None = None
        while True:
            if door.done:
                try:
                    rank, path = door.wait()
                    if rank == _END:
                        self._give_up()
                        return
                    sys.path += [folder for folder in path if folder not in sys.path]
                    self._take_in(rank)
                except acp.PeerLostError:  # any rank's death ends a receive from whoever comes
                    self._refresh()
                door = acp.irecv(tag=TAG)
                continue
            try:
                # A rank may come before this channel, of which `select` tells only once, is heard.
                if channel is not None:
                    heard, channel = self._clients.get(channel), None
                    if heard is not None:
                        self._hear(heard)
                elif not self._clients:
                    _engine.wait_any("delegate", [door], [])
                else:
                    channel = _engine.select_or([*self._clients], door)
            except acp.PeerLostError:  # its channel tells whose death it was
                self._refresh()

    def _take_in(self, rank: int) -> None:
        if is_of_other_node(rank) and self._knows(rank):  # two delegates may have called each other
            return
        for former in [client for client in self._clients.values() if client.rank == rank]:
            with contextlib.suppress(TimeoutError):  # it has not closed that one
                while former.back in self._clients:
                    self._hear(former)
        client = Client(rank)
        self._clients[client.back] = client
        if is_of_other_node(rank):
            self._server.nodes.meet(client)
        else:
            self._server.meet(rank)

    def _knows(self, rank: int) -> bool:
        return any(client.rank == rank for client in self._clients.values())

    def _give_up(self) -> None:
        """Let go of ranks whose ends have not been heard of yet: nothing waits for them."""
        for client in self._clients.values():
            if not is_of_other_node(client.rank):
                self._server.lose(client.rank, "has ended")
                self._server.forget(client)

    def _refresh(self) -> None:
        acp.refresh()
        for rank in _engine.lost_ranks():
            self._server.lose(rank, "has died")

    def _hear(self, client: Client) -> None:
        try:
            heard = client.hear(0.0)
        except acp.Error as reason:  # it has closed, or died
            del self._clients[client.back]
            client.close()
            if is_of_other_node(client.rank):
                self._server.part_from_other(client)
            elif isinstance(reason, acp.PeerLostError):
                self._server.lose(client.rank, "has died")
                self._server.forget(client)
            else:
                self._server.lose(client.rank, "has closed its delegate")
                if self._knows(client.rank):  # it has come again
                    self._server.meet(client.rank)
            os.eventfd_write(self.changed, 1)
            return
        if heard is None:
            return
        number, kind, said = heard
        if kind == SHORT_FOLD:
            self._server.fold(client, number, said)
        elif kind == COMMAND:
            self._server.command(client, number, said)
        elif not self._server.nodes.answer(client, number, kind, said):
            client.answer(number, FAILED, portable(said))

    def end(self) -> None:
        """Have the thread end, and wait for that."""
        acp.send((_END, []), dest=_engine.rank(), tag=TAG)
        self.join()


def await_end(changed: int) -> None:
    """Return when no rank of this node is left."""
    while living := _living():
        with contextlib.ExitStack() as opened:
            poll = select.poll()
            poll.register(changed, select.POLLIN)
            patience = None
            for pid in living:
                try:
                    end = processes.end_of(pid)
                except ProcessLookupError:  # meanwhile
                    patience = 0
                    continue
                opened.callback(os.close, end)
                poll.register(end, select.POLLIN)
            if any(at == changed for at, _ in poll.poll(patience)):
                os.eventfd_read(changed)


def _living() -> list[int]:
    own = Process.of(_engine.row()).node
    rows = [Process.of(_engine.row_of(_engine.slot_of(rank))) for rank in membership.ranks()]
    return [row.pid for row in rows if row.node == own and _lives(row)]


def _lives(process: Process) -> bool:
    try:
        return processes.start_time(process.pid) == process.start_time
    except OSError:
        return False


def main() -> None:
    """Serve until the ranks of the node have gone."""
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):  # they are for the ranks
        signal.signal(number, signal.SIG_IGN)
    with acp.init():
        server = Server(membership.job().delegate_memory or _engine.memory_total() // 8)
        reception = Reception(server)
        reception.start()
        await_end(reception.changed)
        reception.end()
        server.drain()


if __name__ == "__main__":
    main()
