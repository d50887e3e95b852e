"""Groups that a running job starts: they join it, and their ranks come after all others."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shlex
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from acp_mpi import runtime
from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.spawn.growing import whereabouts
from acp_mpi.spawn.growing.questions import Question
from acp_mpi.spawn.macprun import environment
from acp_mpi.spawn.macprun.launchers import Meeting, starts
from acp_mpi.spawn.macprun.nodes import HERE, Node
from acp_mpi.spawn.macprun.plan import Group as Planned
from acp_mpi.spawn.macprun.plan import Plan, check
from acp_mpi.spawn.rendezvous.address import own_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from acp_mpi.joining import Group, Job

_ENDING = 10.0  # s for a minder to end what it has started

_numbers = itertools.count()
_lock = threading.Lock()  # of the registry's start
_children: list[subprocess.Popen[bytes]] = []  # that live on: to be reaped


def spawn_group(
    command: str | Sequence[str],
    n: int = 1,
    *,
    name: str | None = None,
    env: Mapping[str, str] | None = None,
    wdir: str | None = None,
    mpi: bool = True,
    launcher: str | Sequence[str] = (),
    timeout: float | None = None,
) -> Group:
    """Start `n` processes of `command` that join this job as a group, and return it.

    Local: no other rank takes part or waits, and several threads and ranks may call it at once. The
    group has the next ranks; they are never given again. `mpi`: the processes are an `mpiexec` of
    their own and share MPI's `COMM_WORLD`; else they are processes without MPI. `launcher` is the
    `mpiexec` with its options if not that of the environment of `command`. `env` is added to this
    process's environment, `wdir` is where they run. Their output goes where that of this process
    goes. Returns when all have called `acp.init()`; other ranks learn of the group when they first
    need it, or by `refresh`, and `sync` waits for it only after that.

    Raises Error, with the last lines of its output, if the group ends before it has joined, and
    TimeoutError if it has not within `timeout` seconds (`ACP_JOIN_TIMEOUT`); nothing is left of it
    then. If this process ends later, the group lives on.
    """
    more = {"name": name, "env": env, "wdir": wdir, "mpi": mpi, "launcher": launcher}
    return spawn_groups([(command, n, more)], timeout=timeout)[0]


class _Request:
    """A group to be started, with the arguments of `spawn_group`."""

    def __init__(
        self,
        command: str | Sequence[str],
        n: int = 1,
        *,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        wdir: str | None = None,
        mpi: bool = True,
        launcher: str | Sequence[str] = (),
    ) -> None:
        self.command, self.launcher = _words(command), _words(launcher)
        self.n, self.name, self.mpi = n, name, mpi
        self.env, self.wdir = dict(env or {}), wdir


def spawn_groups(
    requests: Iterable[tuple[Any, ...]], *, timeout: float | None = None
) -> list[Group]:
    """Start several groups at once and return them when all have joined.

    Each is `(command, n)`, or `(command, n, keywords)` with what else `spawn_group` takes. If one
    fails, all are ended, and the error says which it was.
    """
    job = runtime.job()
    if timeout is None:
        timeout = job.place.timeout
    wanted = [_Request(command, n, **dict(*more)) for command, n, *more in requests]
    if not wanted:
        return []
    address = _registry(job)
    plan = check(Plan(tuple(_planned(request) for request in wanted)))
    names = tuple(group.name for group in plan.groups)
    deadline = time.monotonic() + timeout
    with (
        Question(address, job.place.secret, names) as question,
        _Minder(plan, Meeting(address, job.place.secret)) as minder,
    ):
        minder.await_groups(question, deadline, timeout)
        table = question.answer()
        minder.release()
    with _lock:
        job.learn(table)
    return [job.group(name) for name in names]


def _words(text: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(shlex.split(text) if isinstance(text, str) else map(os.fspath, text))


def _planned(request: _Request) -> Planned:
    here = (f"{HERE}:{request.n}",)
    name = request.name
    if name is None:
        name = f"spawned-{_engine.slot_of(_engine.rank())}-{next(_numbers)}"
    return Planned(
        name, request.n, request.command, request.mpi, here, request.env, request.wdir,
        request.launcher,
    )  # fmt: skip


def _registry(job: Job) -> str:
    """Return where the registry is, after starting one unless somebody has done so."""
    with _lock:
        if job.registry is None:
            job.registry = whereabouts.find(job.founders)
        if job.registry is None:
            process, address = _start_registry(job)
            if other := whereabouts.announce(job.founders, address):
                process.kill()
                process.wait()
            else:
                _children.append(process)
            job.registry = other or address
        return job.registry


def _start_registry(job: Job) -> tuple[subprocess.Popen[bytes], str]:
    process = _python(
        "from acp_mpi.spawn.growing.registry import main; main()",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    listen = f"{own_address()}:0" if job.place.wide else "127.0.0.1:0"
    with process.stdin, process.stdout:
        process.stdin.write(listen.encode() + b"\n" + job.place.secret + job.table().pack())
        process.stdin.close()
        address = process.stdout.readline().decode().strip()
    if not address:
        raise Error(
            f"spawn_group: the registry of this job, run by {sys.executable}, ended at once with "
            f"exit code {process.wait()}; does `{sys.executable} -c 'import acp_mpi'` work?"
        )
    return process, address


def _python(
    program: str, stdin: int, stdout: int | None = None, stderr: int | None = None
) -> subprocess.Popen[bytes]:
    """Run a program of this package as a process of no terminal and no launcher."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=environment.inherited(os.environ),
        start_new_session=True,
    )


class _Minder:
    """The process that starts the groups of one call, and this side of the talk with it."""

    def __init__(self, plan: Plan, meeting: Meeting) -> None:
        given = {group.name: (Node(HERE, group.size),) for group in plan.groups}
        made = starts(plan, given, meeting, os.environ, marked=False)
        self._names = [group.name for group in plan.groups]
        self._meeting = meeting
        orders = [
            [
                {"command": s.command, "env": dict(s.env), "directory": s.directory}
                for s in made
                if s.group == name
            ]
            for name in self._names
        ]
        self._line, other = socket.socketpair()
        with other:
            program = "from acp_mpi.spawn.growing.minder import main; main()"
            self._process = _python(program, other.fileno())
        self._heard = b""
        groups = [{"starts": order} for order in orders]
        self._line.sendall(json.dumps(groups).encode() + b"\n")

    def await_groups(self, question: Question, deadline: float, timeout: float) -> None:
        """Return when the answer is there; raise what has become of a group instead."""
        answer, line = question.fileno(), self._line.fileno()
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            ready, _, _ = select.select([answer, line], [], [], left)
            if answer in ready:
                return
            if line in ready:
                self._hear()
            elif not ready:
                names = ", ".join(map(repr, self._names))
                raise TimeoutError(
                    f"spawn_group: not all of {names} have called acp.init() within {timeout:g} s; "
                    "they have been ended. Give more time by timeout= or ACP_JOIN_TIMEOUT"
                )

    def _hear(self) -> None:
        data = self._line.recv(1 << 16)
        if not data and not all(map(self._has_joined, self._names)):
            raise Error("spawn_group: the process that starts groups for this one was killed")
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            word = json.loads(line)
            name, said = self._names[word["group"]], word["output"]
            if self._has_joined(name):
                continue
            raise Error(
                f"spawn_group: group {name!r} ended before it had joined: {word['reason']}; "
                + (f"its last lines:\n{said}" if said else "it said nothing")
            )

    def _has_joined(self, name: str) -> bool:
        with Question(self._meeting.address, self._meeting.secret) as question:
            return any(group.name == name for group in question.answer().groups)

    def release(self) -> None:
        """Let the groups live on without this process."""
        with contextlib.suppress(BrokenPipeError):  # all have ended by now, and it with them
            self._line.sendall(b"joined\n")
        _children.append(self._process)

    def __enter__(self) -> _Minder:
        return self

    def __exit__(self, kind: object, *ignored: object) -> None:
        self._line.close()
        if kind is not None:
            self._process.wait(_ENDING)
        _children[:] = [child for child in _children if child.poll() is None]
