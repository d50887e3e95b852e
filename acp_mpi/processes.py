"""The processes of this host: when one began, who its descendants are, how one ended."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def start_time(pid: int) -> int:
    """Return when a process began, in clock ticks after the boot."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def children() -> dict[int, list[int]]:
    """Return the children of all processes that have any."""
    found: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        found.setdefault(parent, []).append(int(name))
    return found


def family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, the nearest first."""
    generation, parents = [pid], children()
    while generation:
        yield from generation
        generation = [child for one in generation for child in parents.get(one, [])]


def outcome(code: int) -> tuple[int, str]:
    """Return the exit code as a shell has it, and in words, of what Popen calls it."""
    if code >= 0:
        return code, f"exit code {code}"
    import signal  # takes time to load

    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal
        name = f"signal {-code}"
    return 128 - code, f"killed by {name}"
