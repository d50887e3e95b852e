"""An alarm that comes in the middle of a call, as Ctrl-C does."""

import contextlib
import gc
import signal


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
