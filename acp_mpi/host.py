"""What this process's host is: its node, its memory, its launcher."""

from __future__ import annotations

import os

from acp_mpi.engine import _engine
from acp_mpi.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LAUNCHERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def _text(path: str) -> str:
    with open(path, "rb") as file:
        return file.read().decode().strip()


def _number_of(parts: tuple[str, ...], size: int) -> int:
    return int.from_bytes(_engine.sha256("\0".join(parts).encode())[:size], "little")


def node_key(name: str | None, apart: bool) -> int:
    """Return the number that processes which may share memory have in common.

    Same boot, host name, namespaces of network and process ids (by which processes know each
    other) and `ACP_NODE` (`name`; unset is a value too). Whoever keeps `apart` by its `ACP_PATH`
    has none in common with those who do not.
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


def launched_by_mpi(environ: Mapping[str, str]) -> bool:
    """Return whether an MPI launcher started this process."""
    return any(name in environ for name in _LAUNCHERS)


def tasks_of_srun(environ: Mapping[str, str]) -> int:
    """Return how many tasks srun has started if this is the first of them; else 1."""
    first = environ.get("SLURM_PROCID") == "0"
    return int(environ.get("SLURM_STEP_NUM_TASKS", "1")) if first else 1
