"""What this process's host is: its node, its memory, its launcher, its processes."""

import contextlib
import hashlib
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from acp_mpi.errors import Error

_LAUNCHERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def node_key(name: str | None) -> int:
    """Return the number that processes which may share memory have in common.

    Same boot, host name, namespaces of network and process ids (by which processes know each
    other) and `ACP_NODE` (`name`; unset is a value too).
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid")]
    parts = (boot, socket.gethostname(), *spaces, "unset" if name is None else f"={name}")
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8], "little")


def host_key() -> int:
    """Return the number that processes which reach each other by loopback have in common."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    parts = (boot, os.readlink("/proc/self/ns/net"))
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:4], "little")


def interfaces_of(text: str) -> bytes:
    """Check a list of network interfaces ("eth0,ib0"; "" means all) and return it."""
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


def memory_total() -> int:
    """Return the bytes of memory of this machine, or of this control group if less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(file).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def launched_by_mpi(environ: Mapping[str, str]) -> bool:
    """Return whether an MPI launcher started this process."""
    return any(name in environ for name in _LAUNCHERS)


def start_time(pid: int) -> int:
    """Return when a process began, in clock ticks after the boot."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def children() -> dict[int, list[int]]:
    """Return the children of all processes that have any."""
    found: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
            found.setdefault(parent, []).append(int(name))
    return found


def family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, the nearest first."""
    generation, parents = [pid], children()
    while generation:
        yield from generation
        generation = [child for one in generation for child in parents.get(one, [])]
