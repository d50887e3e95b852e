"""The host of this process: its node, its memory, its launcher."""

from __future__ import annotations

import os

from acp_mpi.engine import _engine
from acp_mpi.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

_LAUNCHERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
_OWN_RANK = ("PMI_RANK", "PMIX_RANK")  # a rank does not hand them on: they are of a new launcher
# Variables that mark a process of MPI, and names with such a beginning that are users' settings.
_OF_MPI = ("PMI_", "PMIX_", "PRTE_", "HYDI_")
_SETTINGS = ("PMIX_MCA_", "PRTE_MCA_")
_RANK_OF = "ACP_RANK_OF"
_ANNOUNCED = {  # by launchers: the rank of a process, and how many there are
    "mpiexec of MPICH": ("PMI_RANK", "PMI_SIZE"),
    "mpiexec of Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
}


def _text(path: str) -> str:
    with open(path, "rb") as file:
        # The name of a process may be cut in the middle of a letter.
        return file.read().decode(errors="replace").strip()


def _number_of(parts: tuple[str, ...], size: int) -> int:
    return int.from_bytes(_engine.sha256("\0".join(parts).encode())[:size], "little")


def node_key(name: str | None, apart: bool) -> int:
    """Return the number that processes which may share memory have in common.

    Same boot, host name, namespaces of network and process ids (by which processes know each
    other) and `ACP_NODE` (`name`; unset is a value too). Processes that keep `apart` by their
    `ACP_PATH` have none in common with the others.
    """
    boot = _text("/proc/sys/kernel/random/boot_id")
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid")]
    named = "unset" if name is None else f"={name}"
    parts = (boot, os.uname().nodename, *spaces, named, "apart" * apart)
    return _number_of(parts, 8)


def host_key() -> int:
    """Return the number that processes which reach each other by loopback have in common."""
    boot = _text("/proc/sys/kernel/random/boot_id")
    return _number_of((boot, os.readlink("/proc/self/ns/net")), 4)


def interfaces_of(text: str) -> bytes:
    """Check a list of network interfaces ("eth0,ib0"; "" means all) and return it."""
    if not text:
        return b""
    import socket

    here = [name for _, name in socket.if_nameindex()]
    for name in filter(None, text.split(",")):
        if name not in here:
            raise Error(
                f"init: ACP_INTERFACES={text}: there is no interface {name!r} on "
                f"{socket.gethostname()}; there are {', '.join(here)}"
            )
    if len(text) >= 256:
        raise Error(f"init: ACP_INTERFACES has {len(text)} characters; at most 255")
    return text.encode()


_launched = False  # by an MPI launcher, as the environment no longer says
_taken: dict[str, str] = {}  # out of the environment, since MPI has begun


def launched_by_mpi(environ: Mapping[str, str]) -> bool:
    """Return whether an MPI launcher started this process."""
    if is_inherited(environ):
        return any(name in environ for name in _OWN_RANK)
    return _launched or any(name in environ for name in _LAUNCHERS)


def keep_mpi_to_oneself(environ: MutableMapping[str, str]) -> None:
    """Take out what would make a child of this process, where MPI has begun, take itself for it."""
    global _launched
    _launched = launched_by_mpi(environ)
    for name in tuple(environ):
        local = "LOCAL" in name and "RANK" in name
        if name.startswith(_OF_MPI) and not (local or name.startswith(_SETTINGS)):
            _taken[name] = environ.pop(name)


def taken_from_environment() -> Mapping[str, str]:
    """Return what was taken out, for a call in which MPI itself starts processes."""
    return _taken


def mark_rank(environ: MutableMapping[str, str]) -> None:
    """Have the processes that this one starts know that they are not the rank."""
    environ[_RANK_OF] = _own_name()


def is_inherited(environ: Mapping[str, str]) -> bool:
    """Return whether the environment says where a rank belongs that has started this process."""
    rank = environ.get(_RANK_OF)
    return rank is not None and rank != _own_name() and environ.get("ACP_MPI") != "1"


def is_helper(environ: Mapping[str, str]) -> bool:
    """Return whether a rank has started this process, and no launcher has made it another rank."""
    return is_inherited(environ) and not launched_by_mpi(environ)


def _own_name() -> str:
    """Return this process's number, which another one has later, and when it began."""
    return f"{os.getpid()}:{_text('/proc/self/stat').rpartition(')')[2].split()[19]}"


def open_lifeline(process: int, descriptor: int, pipe: int) -> int | None:
    """Open a pipe of macprun's, known by its inode; None: that is not on this host."""
    path = f"/proc/{process}/fd/{descriptor}"
    try:
        if os.stat(path).st_ino == pipe:
            return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        pass
    return None


def announced(environ: Mapping[str, str]) -> dict[str, int]:
    """Return how many processes each launcher says that it has started, to the first of them."""
    inherited = is_inherited(environ)
    return {
        launcher: int(environ.get(size, "1"))
        for launcher, (rank, size) in _ANNOUNCED.items()
        if environ.get(rank) == "0" and (rank in _OWN_RANK or not inherited)
    }
