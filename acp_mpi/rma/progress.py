"""`with acp.progress():` keeps a program's own MPI windows moving while it computes.

In most MPIs, what other ranks put into a window arrives when the rank that owns it calls MPI. A
native thread does so in its place: one for the process, while any caller wants it.
"""

import atexit
import os
import threading
from dataclasses import dataclass
from typing import Any, Self

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.rma.window import REMEDY, too_low_a_level

SHORTEST, LONGEST = 1e-6, 1.0


@dataclass(frozen=True, slots=True)
class ProgressStatistics:
    """The work of the thread of this process since it was started, zeros if there is none."""

    looks: int
    """How often it has called MPI."""
    seconds: float
    """Processor time that it has used."""


class _Driver:
    """The thread, and the intervals that its users have asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: list[float] = []
        self._thread: _engine.MpiProgress | None = None
        self._watching = False  # for the end of MPI and of the program
        self._paused = self._forked = False

    def enter(self, interval: float) -> None:
        """Start the thread for the first; the shortest interval counts."""
        with self._lock:
            if self._forked:
                raise Error(
                    "progress: this is a forked child, and MPI belongs to its parent; start "
                    "processes with the spawn method instead"
                )
            pace = min([interval, *self._wanted])
            if self._thread is not None:
                self._thread.pace(_nanoseconds(pace))
            else:
                _need_mpi()
                if not self._paused:
                    self._thread = self._start(pace)
            self._wanted.append(interval)

    def leave(self, interval: float) -> None:
        """End the thread with the last."""
        with self._lock:
            if self._forked:  # inside a block of its parent
                return
            self._wanted.remove(interval)
            if self._thread is None:
                return
            if self._wanted:
                self._thread.pace(_nanoseconds(min(self._wanted)))
            else:
                self._stop()

    def pause(self) -> None:
        """Have no thread, though some want it, until `resume`; before MPI ends, for ever."""
        with self._lock:
            self._paused = True
            self._stop()

    def resume(self) -> None:
        """Start it again if any caller wants it."""
        with self._lock:
            self._paused = False
            if self._wanted:
                self._thread = self._start(min(self._wanted))

    def statistics(self) -> ProgressStatistics:
        """Return what the thread has done."""
        with self._lock:
            looks, ns = (0, 0) if self._thread is None else self._thread.statistics()
        return ProgressStatistics(looks, ns / 1e9)

    def forget(self) -> None:
        """Be nothing in a forked child: there is no thread, and its parent's lock may be held."""
        self.__init__()  # type: ignore[misc]
        self._forked = True

    def _start(self, pace: float) -> _engine.MpiProgress:
        from mpi4py import MPI

        if not self._watching:
            key = MPI.Comm.Create_keyval(delete_fn=lambda *ignored: self.pause())
            MPI.COMM_SELF.Set_attr(key, None)
            atexit.register(self.pause)
            os.register_at_fork(after_in_child=self.forget)
            self._watching = True
        tag: Any = MPI.COMM_WORLD.Get_attr(MPI.TAG_UB)
        return _engine.MpiProgress(
            user=MPI.__file__,
            comm=MPI._handleof(MPI.COMM_WORLD),
            any_source=MPI.ANY_SOURCE,
            tag=tag,
            interval_ns=_nanoseconds(pace),
        )

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()


def _need_mpi() -> None:
    """Raise Error if no thread beside the program's may call MPI."""
    from mpi4py import MPI

    if not MPI.Is_initialized() or MPI.Is_finalized():
        raise Error(
            "progress: MPI is not running; enter the block after MPI.Init() and leave it "
            "before MPI.Finalize()"
        )
    if level := too_low_a_level():
        raise Error(
            f"progress: MPI was started with thread level {level}, a thread beside the "
            f"program's needs MULTIPLE; {REMEDY}"
        )


_driver = _Driver()
pause, resume = _driver.pause, _driver.resume


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


class Progress:
    """The result of `progress`: a context manager that may be entered again, inside itself too."""

    def __init__(self, interval: float) -> None:
        self.interval = interval

    def __enter__(self) -> Self:
        _driver.enter(self.interval)
        return self

    def __exit__(self, *ignored: object) -> None:
        _driver.leave(self.interval)

    def statistics(self) -> ProgressStatistics:
        """Return the work of the thread of this process, whichever part of it started that."""
        return _driver.statistics()

    def __repr__(self) -> str:
        return f"progress(interval={self.interval!r})"


def progress(interval: float = 1e-4) -> Progress:
    """Keep the MPI windows of this process moving inside a `with` block while it computes.

    A native thread without the interpreter lock calls MPI every `interval` seconds; less often,
    down to a tenth, where waking up takes so much processor time that it would use more than a
    fortieth of a core. Local: it needs neither `acp.init` nor the other ranks. MPI must run with
    `THREAD_MULTIPLE`, which mpi4py asks for. Blocks may be nested and entered by several threads:
    there is one thread, and the shortest interval counts. After the last block, and before MPI is
    finalized, the thread is gone.

        with acp.progress():
            compute()  # meanwhile Put, Get, Accumulate of other ranks go on
    """
    try:
        fits = SHORTEST <= interval <= LONGEST
    except TypeError:
        raise TypeError(
            f"progress: interval={interval!r} is not a number of seconds; 1e-4 suits most programs"
        ) from None
    if not fits:
        raise ValueError(
            f"progress: interval={interval!r} is not a time from {SHORTEST:g} to {LONGEST:g} "
            "seconds; 1e-4 suits most programs"
        )
    return Progress(float(interval))
