"""What of a node decides how fast its memory and its network are."""

from __future__ import annotations

import os
import resource
from pathlib import Path

_SYS = Path("/sys")
_LIMITS = {
    "open files": resource.RLIMIT_NOFILE,
    "locked memory": resource.RLIMIT_MEMLOCK,
    "address space": resource.RLIMIT_AS,
}


def facts() -> list[tuple[str, str]]:
    """Return names and values, the same on nodes that are alike."""
    limits = ", ".join(f"{name} {_limit(which)}" for name, which in _LIMITS.items())
    return [
        ("processor", _field("/proc/cpuinfo", "model name") or os.uname().machine),
        ("system", f"{os.uname().sysname} {os.uname().release}"),
        ("NUMA nodes", ", ".join(_numa()) or "not known"),
        ("huge pages", _huge_pages()),
        ("limits (soft / hard)", limits),
        ("network", ", ".join(_network()) or "loopback only"),
    ]


def _text(path: str | Path) -> str:
    """Return the words of a file, "" if it cannot be read."""
    try:
        return " ".join(Path(path).read_text(errors="replace").split())
    except OSError:
        return ""


def _field(path: str, name: str) -> str:
    """Return what stands behind the first "name :" of a file of /proc, "" if nothing does."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")


def _limit(which: int) -> str:
    words = [
        "unlimited" if value == resource.RLIM_INFINITY else str(value)
        for value in resource.getrlimit(which)
    ]
    return " / ".join(words)


def _numa() -> list[str]:
    """Return "0: processors 0-31, 64.0 GiB" for each node of memory."""
    found = []
    for folder in sorted(_SYS.glob("devices/system/node/node[0-9]*"), key=_number):
        total = _field(str(folder / "meminfo"), f"Node {_number(folder)} MemTotal").split()
        size = f", {int(total[0]) / 2**20:.1f} GiB" if total else ""
        found.append(f"{_number(folder)}: processors {_text(folder / 'cpulist') or 'none'}{size}")
    return found


def _number(folder: Path) -> int:
    return int(folder.name.lstrip("node"))


def _huge_pages() -> str:
    """Return the settings that stand in brackets, and the pages that are set aside."""
    words = []
    for name in ("shmem_enabled", "enabled"):
        setting = _text(_SYS / "kernel/mm/transparent_hugepage" / name)
        words.append(f"{name} {setting.partition('[')[2].partition(']')[0] or 'not known'}")
    reserved = _field("/proc/meminfo", "HugePages_Total") or "not known"
    return ", ".join([*words, f"reserved {reserved}"])


def _network() -> list[str]:
    """Return the interfaces that are up, but loopback, and the devices of InfiniBand."""
    found = []
    for folder in sorted(_SYS.glob("class/net/*")):
        if folder.name != "lo" and _text(folder / "operstate") == "up":
            speed = _text(folder / "speed")
            known = speed.isdigit()
            words = [folder.name, f"{speed} Mbit/s" if known else "speed not known"]
            found.append(f"{' '.join(words)} MTU {_text(folder / 'mtu')}")
    for folder in sorted(_SYS.glob("class/infiniband/*")):
        rate = _text(folder / "ports/1/rate")
        found.append(f"{folder.name} {rate}".strip())
    return found
