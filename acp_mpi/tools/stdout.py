"""Standard output that cannot be written: its reader has gone, or its disk is full."""

import os
import sys


def stand_in() -> None:
    """Let what is written go nowhere if standard output was closed from the beginning."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  as long as the process


def lost(command: str, reason: OSError) -> int:
    """Return the exit code of a command that could not show all; nothing more is written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is flushed at the end
    if isinstance(reason, BrokenPipeError):  # the reader has gone, and knows
        return 0
    print(f"{command}: it cannot be shown: {reason.strerror}", file=sys.stderr)
    return 1
