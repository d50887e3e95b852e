"""An alarm that comes in the middle of a call, as Ctrl-C does."""

import contextlib
import gc
import os
import signal
import threading

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


class Interrupts:
    """Raise KeyboardInterrupt in this process, two thousand times a second, while `armed`.

    One at a time: each takes `armed` back.
    """

    def __init__(self):
        self.armed = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self):
        self._before = signal.signal(signal.SIGUSR1, self._on_signal)
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self.armed = False
        self._over.set()
        self._thread.join()
        signal.signal(signal.SIGUSR1, self._before)

    def _on_signal(self, number, frame):
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def _send(self):
        while not self._over.wait(0.0005):
            os.kill(os.getpid(), signal.SIGUSR1)
