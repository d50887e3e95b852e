"""An alarm that comes in the middle of a call, as Ctrl-C does."""

import contextlib
import gc
import signal

from acp_mpi.engine import _engine


@contextlib.contextmanager
def handled_by(handler):
    """Call `handler` when the alarm (ITIMER_REAL) comes, which is off at the end.

    What it raises must not be lost, and Python drops what is raised in a callback of the garbage
    collector, as hypothesis has one: nothing is collected meanwhile.
    """
    before = signal.signal(signal.SIGALRM, handler)
    gc.disable()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def in_wait(handler):
    """Call `handler` by an alarm once, when this process waits in a call of acp_mpi.

    However late it gets a processor: an alarm that comes before the wait is followed by another.
    """

    def on_alarm(number, frame):
        if _engine.doing(_engine.rank()):  # 0: it computes
            signal.setitimer(signal.ITIMER_REAL, 0)
            handler()

    with handled_by(on_alarm):
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        yield
