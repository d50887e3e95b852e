"""The process that runs a job: rendezvous, groups, output, signals, what is left when all ended."""

import contextlib
import os
import resource
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from typing import IO, Any

from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.server import Server
from acp_mpi.launch.macprun import environment, family, guard, launchers, leavings, secret_file
from acp_mpi.launch.macprun.attendance import Attendance
from acp_mpi.launch.macprun.control import Control
from acp_mpi.launch.macprun.launchers import Start, starts
from acp_mpi.launch.macprun.meeting import Meeting
from acp_mpi.launch.macprun.nodes import Node, is_here
from acp_mpi.launch.macprun.output import Output, Stream
from acp_mpi.launch.macprun.plan import Plan
from acp_mpi.launch.macprun.process import Pipe, Running, Started, first_of, launch
from acp_mpi.launch.macprun.remarks import Remarks
from acp_mpi.launch.macprun.table import Table
from acp_mpi.util import processes

_PATIENCE = 1e6  # s; each member brings its own, and macprun sees a group end
_KILL_AFTER = 5.0  # s between asking and killing
_JOINED = 255  # among the numbers of signals: the table of all ranks is there
_TICK = 0.2  # s between two looks while something is to be shown, or killed


class Supervisor:
    """Runs one job, in the child that `guard.guarded` makes."""

    def __init__(self, plan: Plan, given: Mapping[str, tuple[Node, ...]], listen: str) -> None:
        self._plan, self._given, self._listen = plan, given, listen
        self._input = _own_input()  # the child has no terminal of its own to ask
        self._groups = {group.name: Running(group) for group in plan.groups}
        self._table = Table(sys.stderr)
        self._remarks = Remarks(self._table)
        self._output = Output(plan.output_dir, self._table.hide, self._await_room)
        self._selector = selectors.DefaultSelector()  # of pipes, and of `_events`
        self._events = selectors.DefaultSelector()  # which do not wait for the reader of our output
        self._selector.register(self._events.fileno(), selectors.EVENT_READ, self._serve)
        self._lost_keeper = False
        self._secret_file: secret_file.SecretFile | None = None
        self._signals: list[int] = []
        self._kill_at: float | None = None

    def run(self, keeper: int, lifeline: int, environ: Mapping[str, str]) -> int:
        """Run the job to its end and return the exit code of macprun."""
        wakeup = self._catch_signals()
        key = self._secret = os.urandom(secret.SIZE)
        sizes = {group.name: group.size for group in self._plan.groups}
        with Server(key, sizes, listen=self._listen, timeout=_PATIENCE, stays=True) as server:
            self._server = server
            self._attendance = Attendance(server, self._groups, self._events)
            self._events.register(lifeline, selectors.EVENT_READ, self._lose_keeper)
            self._events.register(wakeup, selectors.EVENT_READ, self._take_signals)
            control = Control(keeper, self._answer)
            self._events.register(control, selectors.EVENT_READ, control.serve)
            self._attendance.await_table(lambda: self._wakeup[1].send(bytes([_JOINED])))
            made = starts(self._plan, self._given, Meeting(server.address, key), environ)
            files = 2 if self._plan.output_dir else 0
            _make_room(3 * len(made) + (1 + files) * self._plan.size)
            self._make_secret_file(made, environ)
            for start in made:
                self._start(start)
            while not (self._lost_keeper or all(r.ended for r in self._groups.values())):
                self._step()
            control.close()
        if self._secret_file is not None:
            self._secret_file.remove()
        self._end()
        return self._verdict()

    # ---- Start -----------------------------------------------------------------------------

    def _make_secret_file(self, made: Iterable[Start], environ: Mapping[str, str]) -> None:
        """Have the secret where processes read it that launchers start on other hosts."""
        told = [start for start in made if "ACP_SECRET_FILE" in start.env]
        path = secret_file.named(start.env for start in told)
        if path is None:
            return
        self._secret_file = file = secret_file.SecretFile(path, self._secret)
        base = environment.inherited(environ)
        hosts = [node.host for start in told for node in self._given[start.group]]
        others = [host for host in hosts if not is_here(host)]
        for remark in file.bring(
            secret_file.carriers(others, self._plan.ssh or launchers.SSH, base), base
        ):
            self._table.say(f"macprun: {remark}")

    def _start(self, start: Start) -> None:
        first = not any(r.processes for r in self._groups.values())
        stdin = self._input if first else subprocess.DEVNULL
        process = launch(start, stdin, self._watch)
        running = self._groups[start.group]
        running.processes += [process, *process.ranks.values()]
        if process.popen is None:
            self._note_all(running, process, 127, process.reason)
            self._table.say(f"macprun: group {start.group!r}: {process.reason}")

    def _watch(self, pipe: Pipe) -> None:
        self._selector.register(pipe[0], selectors.EVENT_READ, pipe)

    def _catch_signals(self) -> socket.socket:
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        self._wakeup = reader, writer
        signal.set_wakeup_fd(writer.fileno())
        signal.signal(signal.SIGCHLD, _nothing_to_do)
        guard.catch(_nothing_to_do)
        return reader

    # ---- While it runs ---------------------------------------------------------------------

    def _step(self) -> None:
        showing = not self._attendance.complete and self._table.show(self._server.arrivals)
        busy = showing or self._kill_at is not None
        for key, _ in self._selector.select(_TICK if busy else None):
            if not isinstance(key.data, tuple):
                key.data()
            elif not key.data[0].closed:  # with the process that had it, meanwhile
                self._read(*key.data)
        self._kill_if_due()

    def _serve(self) -> None:
        for key, _ in self._events.select(0):
            key.data()

    def _kill_if_due(self) -> bool:
        due = self._kill_at is not None and time.monotonic() >= self._kill_at
        if due:
            family.signal_family(signal.SIGKILL)
        return due

    def _await_room(self, descriptor: int) -> None:
        """Wait for the reader of our output, and serve the rest; BrokenPipeError: it is gone."""
        room = select.poll()
        room.register(descriptor, select.POLLOUT)
        room.register(self._events.fileno(), select.POLLIN)
        while descriptor not in dict(room.poll(None if self._kill_at is None else _TICK * 1000)):
            self._serve()
            if self._kill_if_due() or self._lost_keeper:
                raise BrokenPipeError

    def _read(self, pipe: IO[bytes], stream: Stream, errors: bool) -> bool:
        """Move what is in a pipe; return whether there was anything."""
        try:
            data = os.read(pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        self._output.write(stream.group, stream.feed(data) if data else stream.end(), errors)
        running = self._groups[stream.group]
        while stream.ended:
            rank, code = stream.ended.pop(0)
            self._note(running, running.member(rank), *processes.outcome(code))
        if not data:
            self._selector.unregister(pipe)
            pipe.close()
        return bool(data)

    def _take_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for number in self._wakeup[0].recv(256):
                if number == _JOINED:
                    self._attendance.watch()
                elif number == signal.SIGCHLD:
                    self._reap()
                else:
                    self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGINT and number in self._signals:
            self._kill_at = time.monotonic()
        if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            self._signals.append(number)
            self._remarks.hush()
            for running in self._groups.values():
                running.doom()
            family.signal_orphans(self._started(), number)
        for running in self._groups.values():
            running.signal(number)

    def _started(self) -> set[int]:
        """Return the numbers of the processes that were started here."""
        return {
            process.popen.pid
            for running in self._groups.values()
            for process in running.processes
            if process.popen is not None
        }

    def _reap(self) -> None:
        """Collect the dead: processes of groups, and orphans that have become ours."""
        self._attendance.look_now()
        ours = {
            process.popen.pid: (running, process)
            for running in self._groups.values()
            for process in running.processes
            if process.popen is not None and not process.reason
        }
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            while dead := os.waitid(os.P_ALL, 0, flags):
                if dead.si_pid not in ours:
                    os.waitpid(dead.si_pid, 0)
                    continue
                running, process = ours[dead.si_pid]
                assert process.popen is not None
                code, reason = processes.outcome(process.popen.wait())
                leavings.remove_session_folder(process.start.env)
                for pipe in process.pipes if process.ranks else ():
                    while not pipe[0].closed and self._read(*pipe):  # the ends of its ranks
                        pass
                self._note_all(running, process, code, reason)
                if code and process.start.rank is None:
                    family.end_orphans(ours, f"ACP_GROUP={running.group.name}")

    def _note(self, running: Running, process: Started, code: int, reason: str) -> None:
        self._attendance.look()
        running.end(process, code, reason, self._attendance.complete)
        if not self._attendance.complete:
            self._server.fail(running.group.name, process.reason)

    def _note_all(self, running: Running, process: Started, code: int, reason: str) -> None:
        """Note the end of what a process has started and not told of, and then its own."""
        for member in process.ranks.values():
            if not member.reason:
                self._note(running, member, code or 1, f"srun ended: {reason}")
        self._note(running, process, code, reason)

    def _lose_keeper(self) -> None:
        self._lost_keeper = True

    # ---- Questions -------------------------------------------------------------------------

    def _answer(self, word: str) -> Any:
        if word == "kill":
            self._kill_at = time.monotonic() + _KILL_AFTER
            self._pass_on(signal.SIGTERM)
            return {"asked": True}
        if word == "members":  # the client is this user, and may speak to them as they do
            return {"secret": self._secret.hex(), "rows": self._attendance.members.rows.hex()}
        self._attendance.look()
        came = {arrival.name: arrival for arrival in self._server.arrivals()}
        return {
            "supervisor": os.getpid(),
            "joined": self._attendance.complete,
            "groups": [
                {
                    "name": name,
                    "size": running.group.size,
                    "mpi": running.group.has_mpi,
                    "service": running.group.is_service,
                    "came": list(came[name].ranks),
                    "ended": running.reason or "exit code 0" if running.ended else "",
                    "hosts": [[node.host, node.slots] for node in self._given[name]],
                }
                for name, running in self._groups.items()
            ],
        }

    # ---- The end ---------------------------------------------------------------------------

    def _end(self) -> None:
        """End what the groups have left behind, and print the rest of what they said."""
        self._table.hide()
        family.clear_away(patient=self._lost_keeper)
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, tuple):
                while self._read(*key.data):  # all writers have ended
                    pass
        self._output.close()

    def _verdict(self) -> int:
        failed = [running for running in self._groups.values() if running.counts]
        if not failed:
            return 0
        first = first_of(failed, self._output.bereaved)
        self._say_who_failed(first)
        return 128 + self._signals[0] if self._signals else first.status

    def _say_who_failed(self, first: Running) -> None:
        name = first.group.name
        text = f"macprun: group {name!r} failed first: {first.reason}\n".encode(
            errors="backslashreplace"
        )
        lines = self._output.last_lines(name)
        if lines and len(self._groups) > 1:
            text += b"macprun: its last lines:\n" + b"".join(b"  " + line for line in lines)
        self._output.say(text)


def _make_room(descriptors: int) -> None:
    """Raise the limit of open files if that is needed: pipes of processes, a pidfd of a rank."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = descriptors + 64
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _own_input() -> int:
    """Return standard input for the first group, unless a shell reads it meanwhile."""
    with contextlib.suppress(OSError):
        if not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp():
            return 0
    return subprocess.DEVNULL


def _nothing_to_do(number: int, frame: object) -> None:
    """Only the wake-up matters."""
