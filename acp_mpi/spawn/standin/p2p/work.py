"""Operations of ours that are not over: sends, receives, collectives; and waiting for them."""

from __future__ import annotations

import itertools
from _thread import allocate_lock
from abc import ABC, abstractmethod
from time import monotonic

from acp_mpi.errors import Error
from acp_mpi.spawn.standin.family import MPI
from acp_mpi.spawn.standin.p2p import transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, ClassVar

_OFTEN, _SELDOM = 0.01, 0.1  # s between two looks at MPI
_SHARE = 8  # 1/8 of the time waited so far passes until the next look


class Work(ABC):
    """An operation that is not over."""

    source = MPI.ANY_SOURCE
    tag = MPI.ANY_TAG
    size = 0
    cancelled = False
    result: Any = None
    error: BaseException | None = None

    @abstractmethod
    def step(self) -> bool:
        """Do what can be done now; return whether it is over."""

    @abstractmethod
    def pending(self) -> Iterator[Any]:
        """Return the operations of the transport that it waits for."""

    def cancel(self) -> None:
        """Take it back if that is still possible: for most it is not."""
        self.cancelled = False

    def give_up(self) -> None:  # noqa: B027
        """Stop waiting for it: its send goes on, its message is the next receive's."""

    def describe(self, status: Any) -> None:
        """Fill in a status of mpi4py."""
        if status is None:
            return
        status.Set_source(self.source)
        status.Set_tag(self.tag)
        status.Set_error(self._code())
        status.Set_elements(MPI.BYTE, self.size)
        status.Set_cancelled(self.cancelled)

    def _code(self) -> int:
        if isinstance(self.error, MPI.Exception):
            return int(self.error.Get_error_code())
        return int(MPI.SUCCESS if self.error is None else MPI.ERR_OTHER)


class Done(Work):
    """An operation that was over at once."""

    def __init__(self, source: int = MPI.ANY_SOURCE) -> None:
        self.source = source

    def step(self) -> bool:
        """Return that it is over."""
        return True

    def pending(self) -> Iterator[Any]:
        """Return nothing."""
        return iter(())


class Received(Done):
    """A message that was here at once; `land` gets its bytes, or None if they are in place."""

    def __init__(self, body: Any, arrived: Any, land: Callable[[Any], Any]) -> None:
        super().__init__(body.rank_of(arrived.source))
        self.tag, self.size = arrived.tag, arrived.size
        body.acknowledge(arrived)
        self.result = land(arrived.data)


class Sending(Work):
    """A message on its way, and if it is a synchronous one, the word that it was received."""

    def __init__(self, *posted: Any, keep: Any = None) -> None:
        self._posted, self._keep = [each for each in posted if each is not None], keep

    def step(self) -> bool:
        """Return whether the bytes are free again, and the message received if that matters."""
        if not all(each.done() for each in self._posted):
            return False
        try:
            while self._posted:
                self._posted.pop().check()
        except Error as error:  # no rank was there to receive it
            self.error = error
        return True

    def pending(self) -> Iterator[Any]:
        """Return what it waits for."""
        return (each for each in self._posted if not each.done())


class Attended(Work):
    """An operation that goes on whenever this process waits for, or tests, anything of ours.

    A receive is one: the sender may wait for the acknowledgement.
    """

    _active: ClassVar[set[Any]] = set()

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._over = False
        self._active.add(self)

    def step(self) -> bool:
        """Go on as far as possible; its error is the one's that asks for the end.

        Ctrl-C is not an error of it, but meant for the call that waits, perhaps for another one:
        this goes on with the next step.
        """
        if self._is_over() or not self._lock.acquire(blocking=False):
            return self._is_over()
        try:
            self._end_if(self._is_over() or self._advance())
        except Exception as error:
            self.error = error
            self._end_if(True)
        finally:
            self._lock.release()
        return self._is_over()

    def _is_over(self) -> bool:
        return self._over

    @abstractmethod
    def _advance(self) -> bool:
        """Do what can be done now; return whether that was the last."""

    def _end_if(self, over: bool) -> None:
        if over:
            self._active.discard(self)
            self._over = True

    @classmethod
    def any(cls) -> bool:
        """Return whether there are any."""
        return bool(cls._active)

    @classmethod
    def drive(cls) -> Iterator[Any]:
        """Have all go on; return what they wait for."""
        for each in list(cls._active):
            if not each.step():
                yield from each.pending()


class Receiving(Attended):
    """A message that is expected; `land` gets its bytes, or None if they are in place."""

    def __init__(self, body: Any, posted: Any, land: Callable[[Any], Any]) -> None:
        self._body, self._posted, self._land = body, posted, land
        self._arrived: Any = None
        super().__init__()

    def _advance(self) -> bool:
        if self._arrived is None:
            if not self._posted.done():
                return False
            arrived = self._posted.take()
            self.source = self._body.rank_of(arrived.source)
            self.tag, self.size = arrived.tag, arrived.size
            self._body.acknowledge(arrived)
            self._arrived = arrived
        if self._arrived.truncated:
            raise MPI.Exception(MPI.ERR_TRUNCATE)
        self.result = self._land(self._arrived.data)  # once more if Ctrl-C has ended it
        return True

    def pending(self) -> Iterator[Any]:
        """Return what it waits for."""
        return iter(() if self._over else (self._posted,))

    def cancel(self) -> None:
        """Take it back unless a message is already there."""
        with self._lock:
            if not self._over and self._posted.cancel():
                self.cancelled = True
                self._end_if(True)

    def give_up(self) -> None:
        """Leave its message to the next receive; its buffer is the program's again."""
        with self._lock:
            try:
                self._posted.give_up()  # if it has not taken it: Ctrl-C may come while it asks
            finally:
                self._end_if(True)


class Both(Work):
    """A receive and a send; status, result and error are those of the receive before the send's."""

    def __init__(self, receive: Callable[[], Work], send: Callable[[], Work]) -> None:
        self._receiving = receive()
        try:
            self._sending = send()
        except BaseException:
            self._receiving.give_up()
            raise

    def step(self) -> bool:
        """Return whether both are over."""
        received, sent = self._receiving.step(), self._sending.step()
        self.error = self._receiving.error or self._sending.error
        self.result = self._receiving.result
        return received and sent

    def pending(self) -> Iterator[Any]:
        """Return what they wait for."""
        return itertools.chain(self._receiving.pending(), self._sending.pending())

    def give_up(self) -> None:
        """Leave the message to the next receive."""
        self._receiving.give_up()

    def describe(self, status: Any) -> None:
        """Fill in the status of the receive."""
        self._receiving.describe(status)


class Patience:
    """How long a wait lasts without a look at MPI, and at what other threads of this process do.

    MPI moves its own messages only in its own calls, and another process may wait for one of them
    while this one waits for one of ours. A process that has waited long looks less often: many
    processes that wait for each other take the processor from those that work. `mpi`: one of MPI's
    own operations is waited for, too.
    """

    def __init__(self, mpi: bool = False) -> None:
        self._began = monotonic()
        self._longest = _OFTEN if mpi else _SELDOM

    def seconds(self) -> float:
        """Return the time until the next look."""
        return min(max((monotonic() - self._began) / _SHARE, _OFTEN), self._longest)


def pause(waiting: Iterable[Any], patience: Patience) -> None:
    """Wait until one of these operations of the transport, or of what runs, may be over."""
    everything = dict.fromkeys((*waiting, *Attended.drive()))
    transport.wait_any(list(everything), patience.seconds())
    look_at_mpi()


def look_at_mpi() -> None:
    """Let MPI move its own messages."""
    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.COMM_SELF.Iprobe()


def wait_for(work: Work) -> None:
    """Wait for the end of an operation, good or bad."""
    if work.step():
        return
    patience = Patience()
    while True:
        pause(work.pending(), patience)
        if work.step():
            return


def outcome(work: Work) -> Any:
    """Return the result of an operation that is over, or raise its error."""
    if work.error is not None:
        raise work.error
    return work.result


def finish(work: Work) -> Any:
    """Wait for the end of an operation; return its result, raise its error."""
    wait_for(work)
    return outcome(work)


def complete(work: Work) -> Any:
    """As `finish`, in a call that is the only one to wait for it: an interrupt ends it, too."""
    try:
        return finish(work)
    except BaseException:
        work.give_up()
        raise


def over(work: Work) -> bool:
    """Return whether an operation is over, well or not."""
    for _ in Attended.drive():
        pass
    if work.step():
        return True
    look_at_mpi()
    return False
