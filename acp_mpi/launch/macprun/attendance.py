"""Ranks of a job that have come, and ends of ranks here before their launchers tell them."""

import contextlib
import selectors
import threading
from collections.abc import Callable, Mapping
from functools import partial

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.membership import Membership
from acp_mpi.job.rendezvous.row import Process
from acp_mpi.job.rendezvous.server import Server
from acp_mpi.launch.macprun.process import Running
from acp_mpi.launch.macprun.watch import Watch

_SOON = 1.0  # s until all have the table, when all have come


class Attendance:
    """The members of the job that `server` brings together, as its groups `groups` see them."""

    def __init__(
        self, server: Server, groups: Mapping[str, Running], events: selectors.BaseSelector
    ) -> None:
        self._server, self._groups, self._events = server, groups, events
        self.complete = False
        """Whether all groups have come."""
        self.members = Membership()
        """The table of all ranks, once it is there and has been asked for."""

    def await_table(self, there: Callable[[], object]) -> None:
        """Call `there`, in another thread, when the table is; never if the job ends before."""

        def wait() -> None:
            with contextlib.suppress(Error, OSError):
                self._server.wait()
                there()

        threading.Thread(target=wait, daemon=True).start()

    def look(self) -> None:
        """See which ranks have come."""
        if not self.complete:
            self.complete = all(arrival.complete for arrival in self._server.arrivals())

    def look_now(self) -> None:
        """See which ranks have come, and if all have, which have ended: one may be the reason."""
        self.look()
        if self.complete and self._server.settled(_SOON):
            self.watch()

    def watch(self) -> None:
        """Learn from now on at once of the end of ranks here, the table being there."""
        if self.members.groups:
            return
        with contextlib.suppress(Error):
            self.members = self._server.wait()
        for member in self.members.groups:
            for slot in member.slots if member.has_mpi else ():
                self._watch(self._groups[member.name], Process.of(self.members.row(slot)))

    def _watch(self, running: Running, process: Process) -> None:
        try:
            watch = Watch.of(process)
        except ProcessLookupError:
            running.lose(None)  # meanwhile
            return
        except OSError:  # no descriptor left for it
            return
        if watch is not None:
            running.leavings.look([process.pid])
            lost = partial(self._lose, running, watch)
            self._events.register(watch, selectors.EVENT_READ, lost)

    def _lose(self, running: Running, watch: Watch) -> None:
        running.lose(watch.status())
        self._events.unregister(watch)
        watch.close()
