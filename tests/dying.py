"""How a rank dies while the others are where a test wants them."""

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

import acp_mpi as acp


def sync_before_the_end_of(victim: int) -> None:
    """Sync; the victim returns when all others have: in sync they would hear of its death."""
    acp.sync()
    count = acp.query_starter_ga(victim)
    if acp.rank() == victim:
        acp.wait_until(count, "==", acp.procs() - 1)
        return
    with contextlib.suppress(acp.PeerLostError):  # it may die before it answers the last of them
        acp.fetch_add8(count, 1)


def _die_at(n: int) -> None:
    """Have this process end at its n-th call of the system that changes a file."""
    left = n

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return counted

    for name in ("open", "pwrite", "fsync", "fdatasync", "rename", "unlink", "makedirs"):
        setattr(os, name, counting(getattr(os, name)))


def at_each_call(
    before: Callable[[int], None], work: Callable[[int], None], after: Callable[[int], None]
) -> int:
    """Have a process die at each call of `work` that changes a file; return how many there are.

    All three are given the number of the call; `after` sees what has become of the files.
    """
    n = died = 0
    while died == n:
        n += 1
        before(n)
        pid = os.fork()
        if pid == 0:
            try:
                _die_at(n)
                work(n)
                os._exit(0)
            except BaseException:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        died += os.WIFSIGNALED(status)
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
        after(n)
    return died
