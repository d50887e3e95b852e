"""Count system calls at full speed, by a tracepoint of the kernel.

Strace stops a process at each call; this makes one of 0.3 us take 0.1 longer and can be open while
times are measured. Which calls they are only strace says (`npb_calls.py`).
"""

import ctypes
import os
import platform
import struct
from pathlib import Path

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
TRACEPOINT, INHERIT = 2, 1 << 1  # PERF_TYPE_TRACEPOINT; the second flag of an attribute
CLOSE_ON_EXEC = 8
# Type, size, config, period and two formats, flags, wakeup and an address: PERF_ATTR_SIZE_VER0.
ATTRIBUTES = struct.Struct("=IIQQQQQ16x")
VARIABLE = "NPB_TRACEPOINT"
NUMBER = "events/raw_syscalls/sys_enter/id"
PLACES = tuple(
    Path(place, NUMBER) for place in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
)


class SystemCalls:
    """How many system calls this process makes, in the threads it has and in those they start."""

    def __init__(self) -> None:
        self.why_not = ""  # why they cannot be counted
        self._counters: list[int] = []
        self._own = 0  # made by `so_far`
        try:
            event = _number()
            for thread in os.listdir("/proc/self/task"):
                self._counters.append(_open(event, int(thread)))
        except OSError as reason:
            self.why_not = str(reason)
            self.close()

    def so_far(self) -> int:
        """Return how many there were, without those made here; 0 if they cannot be counted."""
        self._own += len(self._counters)
        return sum(_value(counter) for counter in self._counters) - self._own

    def close(self) -> None:
        """Count no more."""
        while self._counters:
            os.close(self._counters.pop())


def environment() -> dict[str, str]:
    """Return what tells jobs on hosts that are made for them, whose /sys is another one."""
    try:
        return {VARIABLE: str(_number())}
    except OSError:
        return {}


def _number() -> int:
    """Return the number of the tracepoint; nothing is mounted for it."""
    if told := os.environ.get(VARIABLE):
        return int(told)
    for place in PLACES:
        try:
            return int(place.read_text())
        except FileNotFoundError:
            continue
    raise OSError(f"no tracefs is mounted, which would have {PLACES[0]}")


def _open(event: int, thread: int) -> int:
    number = PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise OSError(f"the number of perf_event_open on {platform.machine()} is not known here")
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = ctypes.create_string_buffer(
        ATTRIBUTES.pack(TRACEPOINT, ATTRIBUTES.size, event, 0, 0, 0, INHERIT), ATTRIBUTES.size
    )
    counter = int(libc.syscall(number, attributes, thread, -1, -1, ctypes.c_ulong(CLOSE_ON_EXEC)))
    if counter < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"perf_event_open: {os.strerror(error)}")
    return counter


def _value(counter: int) -> int:
    return int.from_bytes(os.read(counter, 8), "little")
