"""The plan of a start: groups of processes that are one job."""

import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.membership import RANKS_MAX, check_group

_LAUNCHERS_OWN_HOSTS = frozenset(
    ("-f", "-configfile", "-default-hostfile", "-hosts", "-machinefile", "-hostfile", "-host", "-H",
     "-w", "-nodelist", "-nodefile")
)  # fmt: skip


class UsageError(Error):
    """The command line or the job file cannot be understood."""


class Group(NamedTuple):
    """Processes that start together and have one name in the job."""

    name: str
    size: int
    command: tuple[str, ...]
    has_mpi: bool = False
    hosts: tuple[str, ...] = ()
    """Where, each "host" or "host:slots"; empty: nodes of the job."""
    env: Mapping[str, str] = MappingProxyType({})
    directory: str | None = None
    launcher: tuple[str, ...] = ()
    """The launcher of a group with MPI and its options; empty: the first one found."""
    optional: bool = False
    """Its loss after joining is not the job's failure."""

    @property
    def is_service(self) -> bool:
        """Whether its processes sleep until the programs' ranks want something of them."""
        return not self.has_mpi and self.env.get("ACP_SERVICE") == "1"

    @property
    def finds_hosts(self) -> bool:
        """Whether its launcher line says where its processes are to run."""
        words = (word.partition("=")[0] for word in self.launcher[1:])
        return any(word.replace("--", "-", 1) in _LAUNCHERS_OWN_HOSTS for word in words)


class Plan(NamedTuple):
    """The groups of a job in the order of their ranks, and what they have in common."""

    groups: tuple[Group, ...]
    nodefile: str | None = None
    starter_size: str | None = None
    ssh: tuple[str, ...] = ()
    """What starts processes without MPI elsewhere; empty: srun in its allocation, else ssh."""
    output_dir: str | None = None
    delegates: bool = False
    """Whether each node is to have a delegate from the beginning."""

    @property
    def size(self) -> int:
        """The number of processes."""
        return sum(group.size for group in self.groups)


def check(plan: Plan) -> Plan:
    """Return the plan, or raise UsageError with what no job can have."""
    if not plan.groups:
        raise UsageError("a job without groups: give at least one")
    seen = set()
    for group in plan.groups:
        try:
            check_group(group.name, group.size)
        except UsageError:
            raise
        except Error as reason:
            raise UsageError(str(reason)) from None
        if "/" in group.name or group.name.startswith("."):
            raise UsageError(
                f"group name {group.name!r}: a folder of --output-dir is called so, and "
                "it must not hold '/' or begin with '.'"
            )
        if group.name in seen:
            raise UsageError(f"two groups are called {group.name!r}: give each a name of its own")
        seen.add(group.name)
        if not group.command:
            raise UsageError(f"group {group.name!r} has no command: say what it is to run")
        _check_texts(group)
        if group.launcher and not group.has_mpi:
            raise UsageError(
                f"group {group.name!r} has the launcher {shlex.join(group.launcher)!r} and no MPI: "
                "give it --mpi (in a file: mpi = true), or no launcher"
            )
    if plan.starter_size is not None:
        from acp_mpi.config import size_of  # few jobs say it

        try:
            size_of(plan.starter_size)
        except ValueError as reason:
            raise UsageError(f"the size of starter memory: {reason}") from None
    if plan.size > RANKS_MAX:
        raise UsageError(f"{plan.size} processes: a job has at most {RANKS_MAX}")
    return plan


def _check_texts(group: Group) -> None:
    """Raise UsageError for what no process can be given."""
    for name in group.env:
        if not name or "=" in name:
            raise UsageError(f"group {group.name!r}: no variable of env can be called {name!r}")
    texts = [*group.command, *group.launcher, *group.env, *group.env.values()]
    for text in (*texts, group.directory or ""):
        if "\0" in text:
            raise UsageError(f"group {group.name!r}: {text!r} holds a zero, where texts end")


def words(text: str, what: str, *, comments: bool = False) -> tuple[str, ...]:
    """Return the words of a command line as a shell separates them, up to "#" with `comments`."""
    try:
        return tuple(shlex.split(text, comments=comments))
    except ValueError as reason:
        raise UsageError(f"{what}: {text!r}: {reason}") from None


def count(text: object, what: str) -> int:
    """Return a number of processes."""
    try:
        if isinstance(text, str | int) and text is not True and (number := int(text)) > 0:
            return number
    except ValueError:
        pass
    raise UsageError(f"{what}: {text!r}: expected a number of processes, 1 or more")


def variable(text: str, what: str) -> tuple[str, str]:
    """Return name and value of "NAME=VALUE"."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{what}: {text!r}: expected NAME=VALUE")
    return name, value
