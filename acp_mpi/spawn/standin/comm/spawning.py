"""Spawn: processes that join the job as a group, and the communicator with them."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys

import acp_mpi as acp
from acp_mpi.engine import _engine
from acp_mpi.errors import Error, PeerLostError
from acp_mpi.spawn.groups import fork_server_client, given
from acp_mpi.spawn.standin.comm import compiled
from acp_mpi.spawn.standin.comm.bodies import new_context, ranks_in
from acp_mpi.spawn.standin.comm.intercommunicators import connected
from acp_mpi.spawn.standin.comm.strangers import NEWS, PARENT
from acp_mpi.spawn.standin.family import MPI
from acp_mpi.spawn.standin.p2p import transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from acp_mpi.launch.macprun.nodes import Node


class _Program:
    """One command of a spawn, and how many processes of it."""

    def __init__(self, command: Any, args: Any, count: int, info: Any) -> None:
        alone = isinstance(args, (str, bytes, os.PathLike))
        listed = [] if args is None else [args] if alone else args
        self.words = [given.text(os.fsdecode(word)) for word in (command, *listed)]
        self.count = count = given.number(count)
        self.hints = {} if info is None or info == MPI.INFO_NULL else _hints(info)
        if count < 0:
            raise ValueError(f"Spawn: maxprocs={count} is negative; give at least 1")

    @property
    def env(self) -> dict[str, str]:
        """The environment that its hints give; raises ValueError if they cannot be read."""
        env = {}
        for line in self.hints.get("env", "").splitlines():
            name, equals, value = line.partition("=")
            if not equals or not name.isidentifier():
                raise ValueError(
                    f"Spawn: the Info key env has the line {line!r}; write NAME=value, one a line"
                )
            env[name] = value
        if path := self.hints.get("path"):
            env["PATH"] = f"{path}:{env.get('PATH', os.environ.get('PATH', os.defpath))}"
        return env

    @property
    def by_mpi(self) -> bool:
        """Whether MPI itself is to start it, which its hints say, or what it is."""
        said = self.hints.get(compiled.KEY)
        if said is None:
            path = self.env.get("PATH", os.environ.get("PATH"))
            return compiled.only_knows_mpi(self.words[0], path, self.hints.get("wdir", ""))
        if said not in ("on", "off"):
            raise ValueError(f"Spawn: the Info key {compiled.KEY}={said!r}; give on or off")
        return said == "off"

    @property
    def hosts(self) -> list[str]:
        """The hosts that its hints name."""
        text = self.hints.get("hosts") or self.hints.get("host") or ""
        return text.split(",") if text else []

    def script(self) -> str:
        """Return what a shell does to become one of its processes."""
        wdir = self.hints.get("wdir")
        lines = [f"cd {shlex.quote(os.path.abspath(wdir))}"] if wdir else []
        lines += [f"export {name}={shlex.quote(value)}" for name, value in self.env.items()]
        lines.append(f"exec {shlex.join(self.words)}")
        return " && ".join(lines)


def _hints(info: Any) -> dict[str, str]:
    if not hasattr(info, "items"):
        raise TypeError(
            f"Spawn: info={info!r:.60} is not an Info; give MPI.Info.Create({{'wdir': ...}})"
        )
    return {given.text(key): given.text(value) for key, value in info.items()}


def _listed(things: Any, count: int, what: str) -> list[Any]:
    if things is None or isinstance(things, MPI.Info):
        return [things] * count
    if len(things) != count:
        raise ValueError(f"Spawn_multiple: {len(things)} {what} for {count} commands")
    return list(things)


def programs(command: Any, args: Any, maxprocs: Any, info: Any) -> list[_Program]:
    """Return what Spawn_multiple is to start."""
    if isinstance(command, (str, bytes, os.PathLike)):
        raise ValueError("Spawn_multiple: expecting a sequence of commands, got one; use Spawn")
    count = len(command)
    if isinstance(args, str):
        raise ValueError("Spawn_multiple: expecting a sequence of sequences of arguments")
    counts = 1 if maxprocs is None else maxprocs
    is_one = hasattr(counts, "__index__")
    counts = [counts] * count if is_one else _listed(counts, count, "counts")
    parts = (_listed(args, count, "lists of arguments"), counts, _listed(info, count, "infos"))
    return [_Program(*each) for each in zip(command, *parts, strict=True)]


def _command(wanted: Sequence[_Program]) -> list[str]:
    """Return the command line of all processes: a shell that knows which program it is to be."""
    if len(wanted) == 1:
        return ["sh", "-c", wanted[0].script()] if wanted[0].hints else wanted[0].words
    rank = "${PMI_RANK:-${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}}}"
    lines, last = [f"rank={rank}"], 0
    for program in wanted:
        last += program.count
        lines.append(f'if [ "$rank" -lt {last} ]; then {program.script()}; exit; fi')
    return ["sh", "-c", "\n".join(lines)]


def _launcher(wanted: Sequence[_Program]) -> list[str]:
    """Return the launcher of this process's MPI, with what says where to start."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    line = [beside if os.path.exists(beside) else "mpiexec"]
    if any(program.hosts for program in wanted):
        named = ",".join(f"{node.host}:{node.slots}" for node in _places(wanted))
        if "Open MPI" in MPI.Get_library_version():
            line += ["--host", named, "--map-by", "slot"]
        else:
            line += ["-hosts", named]
    return line


def _places(wanted: Sequence[_Program]) -> list[Node]:
    """Return the hosts of all processes in the order of their ranks: each program's are its own."""
    from acp_mpi.launch.macprun.nodes import HERE, Node, dealt, parse  # loaded by few

    places: list[Node] = []
    for program in wanted:
        hosts = dict.fromkeys(program.hosts)
        _check_reach(hosts)
        nodes = [parse(host, "Spawn: the Info key hosts") for host in hosts]
        for node in dealt(nodes or [Node(HERE, program.count)], program.count):
            if places and places[-1].host == node.host:
                places[-1] = Node(node.host, places[-1].slots + node.slots)
            elif any(place.host == node.host for place in places):
                raise ValueError(
                    f"Spawn_multiple: between two programs on host {node.host!r} stands one on "
                    "another; launchers fill a host before the next, so name them side by side"
                )
            else:
                places.append(node)
    return places


def _check_reach(hosts: Iterable[str]) -> None:
    """Raise Error if children on another host could not come to this job."""
    from acp_mpi.job.rendezvous.address import address_towards, said_of
    from acp_mpi.job.rendezvous.row import Process
    from acp_mpi.launch.macprun.nodes import is_here

    away = [host for host in hosts if not is_here(host.partition(":")[0])]
    if away and not Process.of(_engine.row()).address:
        host = away[0].partition(":")[0]
        try:
            address_towards(host)
        except OSError as reason:
            raise Error(f"Spawn: {said_of(host, reason)}; correct the Info key host") from None
        raise Error(
            f"Spawn: {away[0]!r} is another host, and this job, which began on one, listens on its "
            "loopback interface only: start it with ACP_INTERFACES=NAME, the network to that host"
        )


def _start(wanted: Sequence[_Program]) -> tuple[int, ...]:
    """Start the processes; return their ranks in the job."""
    total = sum(program.count for program in wanted)
    if not total:
        raise Error("Spawn: no process is to be started; give maxprocs of at least 1")
    env = {"ACP_SPAWN": "1", PARENT: str(acp.rank())}
    if total == len(wanted) == 1 and not wanted[0].hosts:  # needs no launcher, and no shell
        (program,) = wanted
        wdir = program.hints.get("wdir")
        group = acp.spawn_group(program.words, env={**program.env, **env}, wdir=wdir)
    else:
        group = acp.spawn_group(_command(wanted), total, env=env, launcher=_launcher(wanted))
    return tuple(group.ranks)


def _is_mpi_s(comm: Any, wanted: Sequence[_Program]) -> bool:
    """Return whether MPI is to start the processes itself; raise Error if it cannot."""
    by_mpi = {program.by_mpi for program in wanted}
    if len(by_mpi) > 1:
        raise ValueError(
            "Spawn_multiple: some of these programs are Python with acp_mpi, and some only know "
            "MPI: spawn them by two calls, or give all the same Info key acp_mpi, on or off"
        )
    if True not in by_mpi:
        return False
    compiled.check(comm)
    return True


def _joined(wanted: Sequence[_Program], ranks: tuple[int, ...]) -> tuple[Any, ...]:
    """Start processes that join, and tell them their parents; return the message to these."""
    fork_server_client.begin()  # ready while this process looks at what is to start
    children = _start(wanted)
    context = new_context("spawn")
    counts = [program.count for program in wanted]
    numbers = [number for number, count in enumerate(counts) for _ in range(count)]
    for child, number in zip(children, numbers, strict=True):
        data = MPI.pickle.dumps((context, ranks, children, number))
        with contextlib.suppress(PeerLostError):  # ranks that need it will notice
            transport.send(NEWS, child, 0, data)
    return context, children, counts


def _spawn(comm: Any, read: Any, arguments: tuple[Any, ...], root: int, errcodes: Any) -> Any:
    """Spawn what `read` makes of the arguments, which matter at `root`."""
    ranks = ranks_in(comm)
    news, failed = None, None
    if comm.Get_rank() == root:
        try:
            wanted = read(*arguments)
            news = () if _is_mpi_s(comm, wanted) else _joined(wanted, ranks)
        except Exception as error:  # whatever it is, the others wait for it
            failed = error
    news, text = comm.bcast((news, None if failed is None else str(failed)), root=root)
    if news is None:
        if failed is not None and not isinstance(failed, (Error, OSError)):
            raise failed
        refusal = MPI.Exception(MPI.ERR_SPAWN)
        refusal.add_note(text)
        raise refusal from failed
    if not news:
        return compiled.spawn(comm, read is programs, *arguments, root, errcodes)
    context, children, counts = news
    if errcodes is not None:
        codes = [[MPI.SUCCESS] * count for count in counts]
        errcodes[:] = codes if read is programs else codes[0]
    return connected(context, ranks, children)


def _program(*arguments: Any) -> list[_Program]:
    return [_Program(*arguments)]


def spawn(
    comm: Any,
    command: Any,
    args: Sequence[str] | None = None,
    maxprocs: int = 1,
    info: Any = MPI.INFO_NULL,
    root: int = 0,
    errcodes: list[int] | None = None,
) -> Any:
    """Start processes of one program; collective over `comm`, the arguments matter at `root`."""
    return _spawn(comm, _program, (command, args, maxprocs, info), root, errcodes)


def spawn_multiple(
    comm: Any,
    command: Any,
    args: Any = None,
    maxprocs: Any = None,
    info: Any = MPI.INFO_NULL,
    root: int = 0,
    errcodes: list[list[int]] | None = None,
) -> Any:
    """Start processes of several programs, which have one COMM_WORLD."""
    return _spawn(comm, programs, (command, args, maxprocs, info), root, errcodes)
