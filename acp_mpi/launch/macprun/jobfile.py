"""Files that say what `macprun` is to start: TOML, and the input of the C library's `macprun`."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from acp_mpi.launch.macprun.plan import Group, Plan, UsageError, check, count, words
from acp_mpi.util.usage import meant

_JOB_KEYS = ("nodefile", "starter_size", "ssh", "output_dir", "delegates", "group")
_GROUP_KEYS = (
    "name", "processes", "command", "mpi", "hosts", "env", "directory", "launcher", "optional",
)  # fmt: skip


_MOST = 1 << 24  # characters; what is longer is data, of which the memory need not be full


def read(path: str) -> Plan:
    """Return the plan in a job file of either form; UsageError names the line or the key."""
    try:
        with open(path, encoding="utf-8-sig") as file:  # some editors begin with such a sign
            text = file.read(_MOST + 1)
    except (OSError, UnicodeDecodeError) as reason:
        why = reason.strerror if isinstance(reason, OSError) else reason
        raise UsageError(
            f"the job file {path!r} cannot be read: {why}; a job given on the command line "
            "begins with -n"
        ) from None
    if len(text) > _MOST:
        raise UsageError(
            f"{path!r} is not a job file: it is longer than {_MOST >> 20} MiB; a job given on the "
            "command line begins with -n"
        )
    try:
        return check(_positional(text, path) if _is_positional(text) else _toml(text, path))
    except RecursionError:
        raise UsageError(f"{path}: tables or lists lie too deep in each other") from None
    except ValueError as reason:  # of a number of thousands of digits
        raise UsageError(f"{path}: {reason}") from None


def _is_positional(text: str) -> bool:
    """Return whether a file begins with a number of groups, as no TOML file can."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return next(filter(None, lines), "").isdigit()


# ---- TOML ----------------------------------------------------------------------------------


def _toml(text: str, path: str) -> Plan:
    import tomllib  # a job given on the command line does without

    try:
        job = tomllib.loads(text)
    except tomllib.TOMLDecodeError as reason:
        raise UsageError(
            f"{path}: {reason}; a job given on the command line begins with -n"
        ) from None
    table = _Table(path, job, _JOB_KEYS)
    groups = job.get("group")
    if not isinstance(groups, list) or not all(isinstance(one, dict) for one in groups):
        raise UsageError(f"{path}: no groups: write a table [[group]] for each")
    folder = os.path.dirname(path)
    nodefile = table.text("nodefile")
    return Plan(
        groups=tuple(_group(path, number, one) for number, one in enumerate(groups)),
        nodefile=None if nodefile is None else os.path.join(folder, nodefile),
        starter_size=table.text("starter_size", int),
        ssh=table.line("ssh"),
        output_dir=table.text("output_dir"),
        delegates=table.switch("delegates"),
    )


def _group(path: str, number: int, entries: dict[str, Any]) -> Group:
    where = f"{path}: group {entries.get('name', number)!r}"
    table = _Table(where, entries, _GROUP_KEYS)
    env = entries.get("env", {})
    if not isinstance(env, dict):
        table.refuse("env", "a table of names and texts")
    texts = _Table(f"{where}: env", env, tuple(env))
    hosts = entries.get("hosts", [])
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        table.refuse("hosts", 'a list such as ["node1:4", "node2:4"]')
    name = table.text("name")
    return Group(
        name=f"group{number}" if name is None else name,
        size=count(entries.get("processes", 1), f"{where}: processes"),
        command=table.line("command"),
        has_mpi=table.switch("mpi"),
        hosts=tuple(hosts),
        env={name: str(texts.text(name, int)) for name in env},
        directory=table.text("directory"),
        launcher=table.line("launcher"),
        optional=table.switch("optional"),
    )


class _Table:
    """A table of TOML with values of the types that they should have."""

    def __init__(self, where: str, entries: Mapping[str, Any], known: tuple[str, ...]) -> None:
        self._where, self._entries = where, entries
        for key in entries:
            if key not in known:
                raise UsageError(
                    f"{where}: unknown key {key!r}{meant(key, known)}; known are {', '.join(known)}"
                )

    def refuse(self, key: str, expected: str) -> NoReturn:
        raise UsageError(f"{self._where}: {key} = {self._entries[key]!r}: expected {expected}")

    def text(self, key: str, *also: type) -> str | None:
        value = self._entries.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (str, *also))):
            self.refuse(key, "a text")
        return None if value is None else str(value)

    def line(self, key: str) -> tuple[str, ...]:
        value = self._entries.get(key, [])
        if isinstance(value, str):
            return words(value, f"{self._where}: {key}")
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            self.refuse(key, "a command line, or a list of its words")
        return tuple(value)

    def switch(self, key: str) -> bool:
        value = self._entries.get(key, False)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value


# ---- The input of the C library ------------------------------------------------------------


def _positional(text: str, path: str) -> Plan:
    """Return the plan in: number of groups; launchers; process counts; commands, a line each."""
    lines = _Lines(text, path)
    (groups,) = lines.numbers("the number of groups")
    launchers = [lines.line(f"the launcher of group {number}") for number in range(groups)]
    sizes: list[int] = []
    while len(sizes) < groups:  # one a line, or several
        sizes += lines.numbers(f"the number of processes of group {len(sizes)}")
    if len(sizes) > groups:
        raise UsageError(f"{lines.where}: {len(sizes)} numbers of processes for {groups} groups")
    commands = [lines.line(f"the command of group {number}") for number in range(groups)]
    lines.end()
    plan: dict[str, Any] = {}
    made = []
    for number, (launcher, size, command) in enumerate(
        zip(launchers, sizes, commands, strict=True)
    ):
        alone = os.path.basename(launcher[0]) == "acprun"
        hosts = _acprun(launcher, path, plan) if alone else ()
        made.append(
            Group(
                name=f"group{number}",
                size=size,
                command=command,
                has_mpi=not alone,
                hosts=hosts,
                launcher=() if alone else launcher,
            )
        )
    return Plan(tuple(made), **plan)


def _acprun(line: tuple[str, ...], path: str, plan: dict[str, Any]) -> tuple[str, ...]:
    """Take the options of `acprun` into the plan; return the hosts that they name."""
    from acp_mpi.launch.macprun.nodes import read_nodefile

    hosts: tuple[str, ...] = ()
    rest = list(line[1:])
    while rest:
        option = rest.pop(0)
        name = option.lstrip("-")
        if name not in ("smemsize", "ssh", "nodefile") or not option.startswith("-"):
            raise UsageError(
                f"{path}: acprun: unknown option {option!r}; known are -smemsize, -ssh, -nodefile"
            )
        if not rest:
            raise UsageError(f"{path}: acprun: {option} needs a value")
        value = rest.pop(0)
        if name == "smemsize":
            plan["starter_size"] = value
        elif name == "ssh":
            plan["ssh"] = words(value, f"{path}: acprun: -ssh")
        else:
            hosts = tuple(f"{node.host}:{node.slots}" for node in read_nodefile(value))
    return hosts


class _Lines:
    """The lines of a file without comments, which begin anywhere in them, and blank ones."""

    def __init__(self, text: str, path: str) -> None:
        self._path, self._number, self._lines = path, 0, self._useful(text)

    @property
    def where(self) -> str:
        return f"{self._path}, line {self._number}"

    def _useful(self, text: str) -> Iterator[str]:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                self._number = number
                yield line

    def line(self, what: str) -> tuple[str, ...]:
        for line in self._lines:
            return words(line, self.where, comments=True)
        raise UsageError(f"{self._path} ends where {what} should be")

    def numbers(self, what: str) -> list[int]:
        return [count(word, self.where) for word in self.line(what)]

    def end(self) -> None:
        for line in self._lines:
            raise UsageError(f"{self.where}: {line.strip()!r}: the commands of all groups are read")
