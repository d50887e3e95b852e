"""The one table of `ACP_*` variables; nothing else reads the environment.

Every variable can also be given to a program as `--acp-name value` or `--acp-name=value`;
`init` takes these out of `sys.argv`.
"""

from __future__ import annotations

from acp_mpi.errors import Error
from acp_mpi.util import _system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from typing import Any

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
MOST = 1 << 60  # bytes
FOR_EVER = 1e9  # seconds: what more, and "inf", mean; clocks in nanoseconds can count to it
PATHS = {"": 0, "owner": 1, "link": 2, "window": 3}
LINKS = {"": 0, "crc": 1, "mac": 2, "encrypt": 3}  # how frames of links are protected
APART = ("link", "window")  # as if the other ranks of the node were elsewhere


def size_of(text: str) -> int:
    """Return the bytes in "4096", "64K", "1.5GiB"."""
    import re

    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if not match:
        raise ValueError(f"{text!r} is not a size; write for example 10240, 64M or 2G")
    size = int(float(match[1]) * _UNITS[match[2]])
    if size > MOST:
        raise ValueError(f"{text!r} is more than any machine has; write for example 64M or 2G")
    return size


def _size_or_share(text: str) -> int | float:
    """Return the bytes of a size, or of "25%" the share, 0.25."""
    number, percent, rest = text.strip().partition("%")
    if not percent:
        return size_of(text)
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if rest or not 0 <= share <= 1:
        raise ValueError(f"{text!r} is not a share from 0% to 100%; write for example 25%")
    return share


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(f"{text!r} is neither 0 nor 1")
    return text == "1"


def _path(text: str) -> str:
    if text not in PATHS:
        raise ValueError(f"{text!r} is not one of {', '.join(filter(None, PATHS))}")
    return text


def _links(text: str) -> str:
    if text not in LINKS:
        raise ValueError(f"{text!r} is not one of {', '.join(filter(None, LINKS))}")
    return text


def _positive(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(f"{text!r} is not a positive number of seconds")
    return min(seconds, FOR_EVER)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a number from 0")
    return int(text)


def _size(text: str) -> int:
    if not _count(text):
        raise ValueError("a group has at least one process")
    return _count(text)


def _links_open(text: str) -> int:
    if not _count(text):
        raise ValueError(
            "a process has at least one link open; leave it out for a share of its open files"
        )
    return min(_count(text), 2**31)


def _multirun(text: str) -> tuple[str, int]:
    path, _, offset = text.strip().rpartition(" ")
    if not path or not (offset.isascii() and offset.isdigit()):
        raise ValueError(f"{text!r} is not a table of ports and an offset: Portfile 1")
    return path, int(offset)


def _lifeline(text: str) -> tuple[int, int, int]:
    numbers = text.split(":")
    if len(numbers) != 3:
        raise ValueError(f"{text!r} is not a process, a descriptor of it, and a pipe: 123:4:56")
    process, descriptor, pipe = map(_count, numbers)
    return process, descriptor, pipe


class Settings:
    """The settings that the environment and the command line give."""

    mpi: bool | None = None
    path: str = ""
    node: str | None = None
    heap_size: int | None = None
    starter_size: int = 10240
    window_size: int | float | None = None  # a float is a share of the rank's limit
    unexpected_max: int = 0
    peer_timeout: float = 30.0
    join_timeout: float = 60.0
    rendezvous: str | None = None
    secret_file: str | None = None
    secret: str | None = None
    multirun: tuple[str, int] | None = None
    group: str | None = None
    group_size: int = 1
    group_rank: int = 0
    ptrace: bool = True
    interfaces: str = ""
    links: str = ""
    links_open: int = 0
    parent: int | None = None
    hints: str = ""
    rank_of: str = ""
    lifeline: tuple[int, int, int] | None = None
    spawn: bool = False
    service: bool = False
    delegate_memory: int | None = None

    def __init__(self, given: dict[str, Any]) -> None:
        vars(self).update(given)


VARIABLES: dict[str, Callable[[str], Any]] = {
    "ACP_MPI": _switch,
    "ACP_PATH": _path,
    "ACP_NODE": str,
    "ACP_HEAP_SIZE": size_of,
    "ACP_STARTER_SIZE": size_of,
    "ACP_WINDOW_SIZE": _size_or_share,
    "ACP_UNEXPECTED_MAX": size_of,
    "ACP_PEER_TIMEOUT": _positive,
    "ACP_JOIN_TIMEOUT": _positive,
    "ACP_RENDEZVOUS": str,
    "ACP_SECRET_FILE": str,
    "ACP_SECRET": str,
    "ACP_MULTIRUN": _multirun,
    "ACP_GROUP": str,
    "ACP_GROUP_SIZE": _size,
    "ACP_GROUP_RANK": _count,
    "ACP_PTRACE": _switch,
    "ACP_INTERFACES": str,
    "ACP_LINKS": _links,
    "ACP_LINKS_OPEN": _links_open,
    "ACP_PARENT": _count,
    "ACP_HINTS": str,  # read where groups are started: acp_mpi/launch/macprun/hints.py
    "ACP_LIFELINE": _lifeline,  # set by acp_mpi/launch/macprun/guard.py
    "ACP_RANK_OF": str,  # read by acp_mpi/host.py: what a rank starts is not the rank
    "ACP_SERVICE": _switch,  # of one process: not of the ranks that a program means by all
    "ACP_DELEGATE_MEMORY": size_of,
    "ACP_SPAWN": _switch,  # read when Python starts, too: acp_mpi/spawn/acp_mpi_spawn.pth
}
_TESTS = "ACP_TEST_"  # read by the tests, not by the library
_TWO_VALUES = "--acp-multirun"  # Portfile OFFSET, as in paper 001, figure 5
_NO_OPTION = "--acp-secret"
# Variables that came with the secret name this process; a process that it starts is another one.
_PLACE = (
    "ACP_SECRET", "ACP_RENDEZVOUS", "ACP_GROUP", "ACP_GROUP_SIZE", "ACP_GROUP_RANK", "ACP_MPI",
    "ACP_PARENT", "ACP_SERVICE",
)  # fmt: skip
_NOT_INHERITED = (*_PLACE, "ACP_SECRET_FILE", "ACP_MULTIRUN")


def take_arguments(argv: list[str]) -> dict[str, str]:
    """Remove `--acp-*` and their values from `argv`; return them as variables."""
    taken: dict[str, str] = {}
    at = 1
    while at < len(argv) and argv[at] != "--":
        if not str(argv[at]).startswith("--acp-"):  # paths have been put there, too
            at += 1
            continue
        option, equals, value = str(argv.pop(at)).partition("=")
        values = [value] if equals else []
        wanted = 2 if option == _TWO_VALUES else 1
        if len(argv) - at < wanted - len(values):
            needed = "a value" if wanted == 1 else "two values: a table of ports and an offset"
            raise Error(f"init: {option} needs {needed}")
        while len(values) < wanted:
            values.append(str(argv.pop(at)))
        if option == _NO_OPTION:
            raise Error(
                f"init: {option}: every user of the host can read command lines; give the "
                "secret by ACP_SECRET_FILE, and make a new one, for this one is known now"
            )
        taken[option[2:].upper().replace("-", "_")] = " ".join(values)
    return taken


def _option(name: str) -> str:
    return f"--{name.lower().replace('_', '-')}"


def load(
    environ: MutableMapping[str, str], argv: list[str], *, inherited: bool = False
) -> Settings:
    """Read the settings; a secret and its place go from `environ`, options from `argv`.

    Variables that are `inherited` from a rank name the place of that rank, not of this process.
    """
    unread = _NOT_INHERITED if inherited else ()
    given = {
        name: text
        for name, text in environ.items()
        if name.startswith("ACP_") and name not in unread
    }
    if "ACP_SECRET" in environ:
        for name in _PLACE:
            environ.pop(name, None)
        _system.wipe_variable("ACP_SECRET")
    options = take_arguments(argv)
    for name in options:
        if name not in VARIABLES:
            from acp_mpi.util.usage import meant

            known = [_option(one) for one in sorted(set(VARIABLES) - {"ACP_SECRET"})]
            hint = meant(_option(name), known)
            raise Error(f"init: unknown option {_option(name)}{hint}; known are {', '.join(known)}")
    for name in sorted(given):
        if name not in VARIABLES and not name.startswith(_TESTS):
            import warnings

            from acp_mpi.util.usage import meant

            warnings.warn(
                f"unknown variable {name} in the environment{meant(name, VARIABLES)}; known are "
                f"{', '.join(sorted(VARIABLES))}",
                stacklevel=3,
            )
    values: dict[str, Any] = {}
    for name, text in {**given, **options}.items():
        if name not in VARIABLES:
            continue
        try:
            values[name[4:].lower()] = VARIABLES[name](text)
        except ValueError as error:
            what = f"{_option(name)} {text}" if name in options else f"{name}={text}"
            raise Error(f"init: {what}: {error}") from None
    return Settings(values)
