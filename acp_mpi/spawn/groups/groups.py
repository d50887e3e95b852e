"""Groups that a running job starts: they join it, and their ranks come after all others."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import time
from _thread import allocate_lock

from acp_mpi.config import FOR_EVER
from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job import membership
from acp_mpi.spawn.groups import fork_server_client, given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from acp_mpi.job.join import Group

_numbers = itertools.count()
_KEYWORDS = ("name", "env", "wdir", "mpi", "launcher")
_FORM = "(command, n) or (command, n, keywords), with the keywords of spawn_group but timeout"
_lock = allocate_lock()  # of what this process knows of its job


def spawn_group(
    command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    n: int = 1,
    *,
    name: str | None = None,
    env: Mapping[str, str] | None = None,
    wdir: str | os.PathLike[str] | None = None,
    mpi: bool = True,
    launcher: str | Sequence[str] = (),
    timeout: float | None = None,
) -> Group:
    """Start `n` processes of `command` that join this job as a group, and return it.

    Local: no other rank takes part or waits, and several threads and ranks may call it at once. The
    group has the next ranks; they are never given again. `mpi`: the processes share MPI's
    `COMM_WORLD`, as an `mpiexec` of their own; a single one needs none. Else they are processes
    without MPI. `launcher` is the `mpiexec` with its options if not that of the environment of
    `command`. `env` is added to this process's environment, `wdir` is where they run. Their output
    goes where that of this process goes. Returns when all have called `acp.init()`; other ranks
    learn of the group when they first need it, or by `refresh`, and `sync` waits for it only after
    that.

    Raises Error, with the last lines of its output, if the group ends before it has joined, and
    TimeoutError if it has not within `timeout` seconds (`ACP_JOIN_TIMEOUT`); nothing is left of it
    then. Error, too, while the ranks have other numbers than at first, by `reset`. If this process
    ends later, the group lives on.
    """
    more = {"name": name, "env": env, "wdir": wdir, "mpi": mpi, "launcher": launcher}
    return spawn_groups([(command, n, more)], timeout=timeout)[0]


class Request:
    """A group to be started, with the arguments of `spawn_group`."""

    def __init__(
        self,
        command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        n: int = 1,
        *,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        wdir: str | os.PathLike[str] | None = None,
        mpi: bool = True,
        launcher: str | Sequence[str] = (),
    ) -> None:
        self.command, self.launcher = _words("command", command), _words("launcher", launcher)
        self.n, self.mpi = _number(n), _choice(mpi)
        if not isinstance(name, str | None):
            raise TypeError(f"spawn_group: name={name!r}: expected a text")
        name = None if name is None else given.text(name)
        self.env, self.wdir = _variables(env), _folder(wdir)
        if name is None:
            name = f"spawned-{_engine.slot_of(_engine.rank())}-{next(_numbers)}"
        self.name = name


def spawn_groups(
    requests: Iterable[tuple[Any, ...]], *, timeout: float | None = None
) -> list[Group]:
    """Start several groups at once and return them when all have joined.

    Each is `(command, n)`, or `(command, n, keywords)` with what else `spawn_group` takes. If one
    fails, all are ended, and the error says which it was.
    """
    _engine.demand("spawn_group")
    job = membership.job()
    if timeout is None:
        timeout = job.place.timeout
    else:
        seconds = _engine.seconds_of(timeout, "spawn_group")
        timeout = FOR_EVER if seconds is None else min(seconds, FOR_EVER)
    if not hasattr(requests, "__iter__"):
        raise TypeError(f"spawn_groups: {requests!r:.60} is not a list; give one of {_FORM}")
    wanted = [_request(each) for each in requests]
    if not wanted:
        return []
    if not isinstance(job.own.ranks, range):
        raise Error(
            "spawn_group: acp.reset has given the ranks other numbers, and newcomers would know "
            "them by their first ones: start groups before that, or have a reset give those back"
        )
    names = tuple(request.name for request in wanted)
    if twice := next(filter(job.has_group, names), None):  # the registry knows of later ones
        raise Error(
            f"spawn_group: there is a group {twice!r} in this job already: give it another name"
        )
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        raise Error(f"spawn_group: two of these groups have the name {twice!r}: give one another")
    fork_server_client.begin()
    from acp_mpi.spawn.groups import founding, launch_spec  # loaded while the starter gets ready
    from acp_mpi.spawn.groups.group_supervisor_client import Minding

    deadline = time.monotonic() + timeout
    # Its children wait as long; not less than it would itself, for they may start groups, too.
    plan = launch_spec.planned(wanted, max(timeout, job.place.timeout))
    registry = founding.Registry(job, names)
    todo = launch_spec.made(plan, registry.meeting)
    with contextlib.ExitStack() as stack:
        if not registry.promised:
            question = stack.enter_context(registry.question(names))
        minding = stack.enter_context(Minding(names, todo, registry))
        if registry.promised:  # it gets ready while they start
            question = stack.enter_context(registry.question(names))
        minding.await_groups(question, deadline, timeout)
        table = registry.answer(question)
        minding.release()
    with _lock:
        job.learn(table)
    return [job.group(name) for name in names]


def _request(asked: Any) -> Request:
    try:
        if isinstance(asked, str):  # it would come apart into letters
            raise TypeError
        command, n, *more = asked
        keywords = dict(*more)
    except (TypeError, ValueError):
        raise TypeError(f"spawn_groups: {asked!r:.60} is not a group; give {_FORM}") from None
    if unknown := [name for name in keywords if name not in _KEYWORDS]:
        raise TypeError(f"spawn_groups: {unknown[0]!r} is not a keyword of a group; give {_FORM}")
    return Request(command, n, **keywords)


def _words(name: str, line: Any) -> tuple[str, ...]:
    try:
        if isinstance(line, os.PathLike):
            return (given.text(line),)
        return tuple(map(given.text, shlex.split(line) if isinstance(line, str) else line))
    except TypeError:
        expected = "expected a command line, a path, or a list of words"
        raise TypeError(f"spawn_group: {name}={line!r}: {expected}") from None
    except ValueError as reason:
        raise Error(f"spawn_group: {name}={line!r}: {reason}") from None


def _number(n: int) -> int:
    try:
        number = given.number(n)
    except TypeError:
        raise TypeError(f"spawn_group: n={n!r}: expected a number of processes") from None
    if number < 1:
        raise Error(f"spawn_group: n={n!r}: expected a number of processes, 1 or more")
    return number


def _choice(mpi: object) -> bool:
    if mpi not in (True, False):
        raise TypeError(f"spawn_group: mpi={mpi!r}: expected True or False")
    return bool(mpi)


def _variables(env: Any) -> dict[str, str]:
    try:
        pairs = dict(env or {}).items()
    except (TypeError, ValueError):
        raise TypeError(f"spawn_group: env={env!r:.60}: expected a dict of texts") from None
    variables = {}
    for name, value in pairs:
        try:
            variables[given.text(name)] = given.text(value)
        except TypeError:
            expected = "expected two texts"
            raise TypeError(f"spawn_group: env: {name!r}: {value!r}: {expected}") from None
    return variables


def _folder(wdir: Any) -> str | None:
    try:
        return None if wdir is None else given.text(wdir)
    except TypeError:
        expected = "expected the path of a folder"
        raise TypeError(f"spawn_group: wdir={wdir!r}: {expected}") from None
