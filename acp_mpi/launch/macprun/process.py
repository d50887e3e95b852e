"""The groups while they run: their processes, how these ended, and which failed first."""

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import IO

from acp_mpi.launch.macprun.launchers import Start
from acp_mpi.launch.macprun.leavings import Leavings
from acp_mpi.launch.macprun.output import Stream
from acp_mpi.launch.macprun.plan import Group
from acp_mpi.util import _system, processes

_NOTICE = 2.0  # s in which a launcher notices that a rank has failed, and ends
_TOGETHER = 0.5  # s between the end of a rank and its report, at most, on a busy machine
_KILLED = range(129, 129 + 64)  # 128 and the signal: an exit code as shells and launchers have it
_PIPE = 1 << 16  # bytes that fit into any pipe
Pipe = tuple[IO[bytes], Stream, bool]
"""Output of a process: the stream in it, and whether it is that of errors."""


class Started:
    """One process that macprun started."""

    def __init__(
        self, start: Start, popen: subprocess.Popen[bytes] | None, reason: str = ""
    ) -> None:
        self.start, self.popen = start, popen
        self.reason = reason
        """How it ended; "" while it runs."""
        self.ranks = {
            rank: Started(start._replace(rank=rank, ranks=()), None) for rank in start.ranks
        }
        """What it starts on a node, and tells of."""
        self.pipes: list[Pipe] = []


class Running:
    """A group: what runs of it, and how it failed."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.processes: list[Started] = []
        self.status = 0
        """The exit code of what failed first, 0: nothing has."""
        self.reason = ""
        self.failed_at = 0.0
        """By the monotonic clock."""
        self.doomed_at = float("inf")
        """When it was first told to end: what ends then was not killed by a failure."""
        self.lost: list[tuple[float, int | None]] = []
        """When ranks ended that a launcher had started, and how; not those that ended well."""
        self.leavings = Leavings(os.environ)
        """Files that MPI makes on this host for ranks that a launcher has started."""
        self.joined = False
        """Whether it failed after the job was complete."""

    @property
    def ended(self) -> bool:
        """Whether all its processes have ended."""
        return all(process.reason for process in self.processes)

    def member(self, rank: int) -> Started:
        """Return a rank that another process has started on a node."""
        return next(one.ranks[rank] for one in self.processes if rank in one.ranks)

    @property
    def counts(self) -> bool:
        """Whether its failure is the job's."""
        return bool(self.status) and not (self.group.optional and self.joined)

    @property
    def killed(self) -> bool:
        """Whether its first failure was a kill, and not because the job was ordered to end."""
        if self.failed_at >= self.doomed_at:
            return False
        if not self.lost:
            return self.status in _KILLED
        status = next((status for at, status in self.lost if at >= self.failed_at), None)
        return status is not None and os.WIFSIGNALED(status)

    def end(self, process: Started, code: int, reason: str, joined: bool) -> None:
        """Note that a process has ended."""
        rank = process.start.rank
        process.reason = reason if rank is None else f"rank {rank}: {reason}"
        if rank is None:
            self.leavings.remove()
        if code and not self.status:
            self.status, self.reason, self.joined = code, process.reason, joined
            self.failed_at = self._failure(time.monotonic())

    def lose(self, status: int | None) -> None:
        """Note that a rank of a launcher has ended, with this status if it is known."""
        if status != 0:
            self.lost.append((time.monotonic(), status))

    def doom(self) -> None:
        """Note that it is going to be ordered to end, and what MPI has made for it."""
        self.doomed_at = min(self.doomed_at, time.monotonic())
        for process in self.processes:
            if process.popen is not None and process.start.rank is None and not process.reason:
                self.leavings.look(processes.family(process.popen.pid))

    def _failure(self, now: float) -> float:
        """Return when the first rank failed, of which a launcher may say so later.

        A rank with an unknown end has failed if its launcher ended soon after.
        """
        return min(
            (at for at, status in self.lost if status is not None or now - at < _NOTICE),
            default=now,
        )

    def signal(self, number: int) -> None:
        """Pass a signal on, as a terminal would: to all that belong to each process."""
        for process in self.processes:
            if process.popen is not None and not process.reason:
                _send(process.popen, number, bool(process.start.ranks))


def first_of(failed: Sequence[Running], bereaved: Container[str] = ()) -> Running:
    """Return the group that failed first.

    Others may miss a rank, and fail of that, before the system says that it has ended; groups with
    their names in `bereaved` have said so.
    """
    in_order = sorted(failed, key=lambda running: running.failed_at)
    soon = [it for it in in_order if it.failed_at < in_order[0].failed_at + _TOGETHER]
    reasons = [it for it in soon if it.group.name not in bereaved] or soon
    return next((it for it in reasons if it.killed), reasons[0])


def launch(start: Start, stdin: int, watch: Callable[[Pipe], None]) -> Started:
    """Start a process; one that cannot be started has ended already. `watch` gets its output."""
    try:
        popen = subprocess.Popen(
            start.command,
            stdin=stdin if start.script is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=start.env,
            cwd=start.directory,
            process_group=0,
            preexec_fn=partial(_system.end_with, os.getpid()),
            bufsize=0,
        )
    except OSError as error:
        where = error.filename if error.filename is not None else start.command[0]
        return Started(start, None, f"{where}: {error.strerror}")
    assert popen.stdout is not None
    assert popen.stderr is not None
    started = Started(start, popen)
    for pipe, errors in ((popen.stdout, False), (popen.stderr, True)):
        os.set_blocking(pipe.fileno(), False)
        started.pipes.append((pipe, Stream(start.group, start.rank, start.marks), errors))
        watch(started.pipes[-1])
    if start.script is not None:
        assert popen.stdin is not None
        script = os.fsencode(start.script)
        with contextlib.suppress(OSError):  # then the others wait for this connection
            fcntl.fcntl(popen.stdin, fcntl.F_SETPIPE_SZ, max(len(script), _PIPE))
        _hand_over(popen.stdin, script)
    return started


def _send(popen: subprocess.Popen[bytes], number: int, by_srun: bool) -> None:
    """Send a signal to a process here, or to the one elsewhere that it is connected to.

    Signals that end a process end the connection, and the process with it, also where nothing
    answers; srun, of which they would end the step, takes them along.
    """
    if popen.stdin is not None and (by_srun or number in (signal.SIGUSR1, signal.SIGUSR2)):
        _hand_over(popen.stdin, b"%s\n" % signal.Signals(number).name[3:].encode())
    else:
        # a program may have become another user's, or gone into another group
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.killpg(popen.pid, number)


def _hand_over(pipe: IO[bytes], text: bytes) -> None:
    """Write to the shell and leave the pipe open: its end is the end of the process there."""
    view = memoryview(text)
    with contextlib.suppress(BrokenPipeError):  # how it ended will be seen
        while view:
            view = view[os.write(pipe.fileno(), view) :]
