"""The life of a job: init, finalize, reset, abort.

The parts of the package register in `rooms` what they do at these moments; nothing below this
module reads the environment.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from _thread import RLock

from acp_mpi import config, errors
from acp_mpi.engine import _engine
from acp_mpi.errors import Error, PeerLostError, RankError
from acp_mpi.job import exit, join, membership
from acp_mpi.job.join import Job, join_job, mpi_group
from acp_mpi.job.membership import job
from acp_mpi.util import host, lifecycle, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, NoReturn

_FINALIZE = 2  # the barrier in which all say that they end
_EXCHANGE = 1  # barriers of the library's own collectives
_MOURNING = 0.25  # s: launchers are to learn first of the rank that was lost, and of its exit code
_INTERRUPTED = 130  # the exit code that shells have for SIGINT

_count = 0
_life = RLock()  # one thread begins or ends at a time
os.register_at_fork(after_in_child=_life._at_fork_reinit)  # type: ignore[attr-defined]
_beginning = False
_arguments: tuple[Any, ...] = ()
_hook_before: Callable[..., Any] = sys.excepthook
_hook: Callable[..., Any] | None = None
_once_done = False
_mpi_broken = False  # a rank of the own MPI group was lost


class Session:
    """The result of `init`: `with acp.init():` calls `finalize` at the end of the block."""

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an error the others may never come: the exception must be seen first.
        if kind is None or issubclass(kind, SystemExit):
            finalize()

    def __repr__(self) -> str:
        if not membership.in_a_job():
            return "<acp_mpi session, closed>"
        return f"<acp_mpi session, rank {_engine.rank()} of {_engine.procs()}>"


def init(
    comm: Any = None, *, heap_size: int | None = None, starter_size: int | None = None
) -> Session:
    """Start, or join, the job; usable as `with acp.init():` (paper 003, table 1).

    Collective over the caller's group: `comm` (default `COMM_WORLD`, duplicated), or the
    processes of an ACP-only group. Waits for the groups that the job announces. `heap_size` limits
    the bytes of global memory of this rank (`ACP_HEAP_SIZE`; default: half of the memory divided
    by the ranks of the job on the node), `starter_size` those of starter memory
    (`ACP_STARTER_SIZE`; 10240).
    Raises the soft limit of open files to the hard one: each rank of the node takes three of them.
    Calls are counted; the last `finalize` ends the job. Raises Error if a later call has other
    arguments, HeapFullError if the limit is beyond the machine, TimeoutError and PermissionError
    from joining other groups. Removes `--acp-*` options from `sys.argv`.
    """
    with _life:
        return _begin(comm, heap_size, starter_size)


def _begin(comm: Any, heap_size: int | None, starter_size: int | None) -> Session:
    global _count, _arguments, _beginning
    if _beginning:  # the import of mpi4py below has put the module of spawn in place
        _count += 1
        return Session()
    arguments = (comm, heap_size, starter_size)
    if _count:
        _engine.demand("init")  # a forked child has none
        if any(
            new is not None and new != old for new, old in zip(arguments, _arguments, strict=True)
        ):
            raise Error(
                f"init: already initialised with {_describe(_arguments)}, now called with "
                f"{_describe(arguments)}; give the same arguments or none"
            )
        _count += 1
        return Session()
    _beginning = True
    given = {name: text for name, text in os.environ.items() if name.startswith("ACP_")}
    words = sys.argv[:]
    try:
        helper = host.is_helper(os.environ)
        inherited = host.is_inherited(os.environ)
        settings = config.load(os.environ, sys.argv, inherited=inherited)
        group = mpi_group(comm, settings)
        joined = join_job(group, settings, heap_size, starter_size)
    except BaseException as error:
        _count = 0
        os.environ.update(given)  # where to join, for another try
        sys.argv[:] = words
        if isinstance(error, Error):  # it says all by its text
            error.__traceback__ = None
        raise
    finally:
        _beginning = False
    _count, _arguments = _count + 1, arguments
    if not helper:  # for good: it may begin again
        host.mark_rank(os.environ)
    membership.enter(joined)
    _install(joined)
    log.info("runtime", "rank %d of %d", _engine.rank(), _engine.procs())
    return Session()


def _describe(arguments: tuple[Any, ...]) -> str:
    names = ("comm", "heap_size", "starter_size")
    return ", ".join(f"{name}={value}" for name, value in zip(names, arguments, strict=True))


def _install(job: Job) -> None:
    global _hook_before, _hook, _once_done
    if not _once_done:
        atexit.register(_at_exit)
        os.register_at_fork(after_in_child=_leave_all_to_the_parent)
        _once_done = True
    errors.connections = _engine.links
    errors.device_words = _engine.device_words
    _engine.set_long_wait(membership.say_who_is_missing)
    _engine.set_unusual_buffer(_unusual_buffer)
    _engine.set_ask_for_new(membership.learn_of_newcomers)
    _hook_before = sys.excepthook
    sys.excepthook = _hook = _ending_the_group_after(_hook_before)
    job.before_mpi_finalize(_close_all)


def _leave_all_to_the_parent() -> None:
    """Have no job and no MPI in a forked child: its end is not that of the rank."""
    _engine._after_fork_in_child()
    membership.enter(None)
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized():
        join.mpi_is_the_parent_s = True
        atexit.register(_engine.never_finalize_mpi, 0)  # 3 ms, which most children need not spend


def is_initialized() -> bool:
    """Return whether `init` was called and the last `finalize` was not."""
    return _count > 0 and _engine.is_open()


def finalize() -> None:
    """End the job for this process when it was called as often as `init` (paper 003, table 1).

    Collective over the living ranks; completes outstanding operations first and raises their errors
    last. Addresses die; arrays keep their memory while anything refers to them. A later `init` is
    another job, in which addresses may be the same numbers: keep none of this one's. After Ctrl-C
    in it call it again: the others take this rank for one that leaves.
    """
    global _count
    with _life:
        if _count > 1:
            _count -= 1
        elif _count:
            _close_all()


def leave() -> None:
    """End the job for the caller's group, while the others go on.

    Collective over the group; as the last `finalize`, however often `init` was called. Its ranks
    are gone then. Ranks that do not need them are not disturbed; one that addresses them, or would
    meet them in `sync`, gets PeerLostError, until `refresh` accepts that.
    """
    global _count
    with _life:
        if _count and _engine.is_open():
            _engine.leave(job().slots)
            _count = 1
            finalize()


def _close_all() -> None:
    global _count, _mpi_broken
    if not _count:
        return
    if not _engine.is_open():  # a forked child
        _count = 0
        return
    error: BaseException | None = None
    try:
        lifecycle.end()
    except Exception as caught:
        error = caught
    _engine.end_channels()
    try:
        _engine.complete()
    except TimeoutError:  # no operation's: a signal handler's
        raise
    except (Error, OSError, ValueError, MemoryError) as caught:
        error = error or caught
    _meet_the_living("finalize", _FINALIZE)  # after Ctrl-C here it can be called again
    try:
        _engine.hear_late("finalize")
    except Error as late:
        error = error or late
    # A rank that has ended since has met the others, and finalizes MPI as they do.
    lost = _engine.lost_ranks(accepted=True)
    _count = 0
    lifecycle.close()
    _engine.leaving()
    own = job().own
    _mpi_broken = own.has_mpi and any(rank in own.ranks for rank in lost)
    job().free(collective=not _mpi_broken)
    _engine.close()
    if sys.excepthook is _hook:
        sys.excepthook = _hook_before
    membership.enter(None)
    if error is not None:
        raise error


def _meet_the_living(function: str, purpose: int) -> None:
    while True:
        _engine.refresh()
        try:
            _engine.meet(function, purpose)
            return
        except PeerLostError:
            continue


def _is_alone() -> bool:
    return _engine.procs() - len(_engine.services()) <= 1


def _where() -> str:
    """Return which of several ranks this process is; "" of one that is alone."""
    if not is_initialized() or _is_alone():
        return ""
    here = f"{os.uname().nodename}, pid {os.getpid()}"
    return f"on rank {_engine.rank()} of {_engine.procs()} ({here})"


def _say_whose(error: BaseException) -> None:
    """Note which rank of which of several groups was lost: labels and MPI have these numbers."""
    if not isinstance(error, PeerLostError) or error.rank is None or not is_initialized():
        return
    try:
        groups = job().groups()
    except Error:  # another thread has ended the job meanwhile
        return
    for group in groups[1:] and groups:
        if error.rank in group.ranks:
            place = group.ranks.index(error.rank)
            note = f"rank {error.rank} is rank {place} of group {group.name!r}"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)


def _at_exit() -> None:
    failed, where = False, _where()
    with _life:
        if _count and _engine.is_open():
            try:
                _close_all()
            except Exception as error:
                exit.show(sys.excepthook, error, where)
                failed = True
    if failed or _mpi_broken:
        exit.without_mpi(int(failed))


def _ending_the_group_after(before: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that prints the traceback, and ends the group: others would wait for this rank.

    A rank that is alone ends as any Python does. Each `init` has a hook of its own: what the
    program has put over an earlier one still calls that.
    """

    def uncaught(
        kind: type[BaseException], value: BaseException, traceback: TracebackType | None
    ) -> None:
        _say_whose(value)
        exit.show(before, value.with_traceback(traceback), _where())
        if is_initialized() and not _is_alone():
            if issubclass(kind, PeerLostError):
                time.sleep(_MOURNING)
            end_group(_INTERRUPTED if issubclass(kind, KeyboardInterrupt) else 1)

    return uncaught


def end_group(code: int) -> NoReturn:
    """End this process with `code`, and its MPI group with it."""
    exit.flush()
    if membership.in_a_job():
        exit.until_read(1, 2)
        job().abort_mpi(code)
    os._exit(code)


def abort(message: str) -> NoReturn:
    """End this process at once with `message` on stderr (paper 003, table 1).

    The launcher may end the rest of an MPI group; the ranks of other groups see PeerLostError.
    """
    who = f"rank {_engine.rank()}: " if is_initialized() else ""
    try:
        sys.stderr.write(f"acp_mpi: abort: {who}{message}\n")
    finally:  # also if standard error is closed
        end_group(1)


def reset(rank: int) -> None:
    """Return to the state after `init`, this process with rank `rank` (paper 003, section 2.3).

    Collective over all ranks; their new ranks must be a permutation: RankError on all of them
    otherwise, and nothing has changed; those that have died keep theirs. Registrations and
    addresses of arrays end; starter memory is zero again. The slot of a process (group offset + MPI
    rank) never changes.
    """
    from acp_mpi.rma.exchange import allgather

    _engine.demand("reset")
    _engine.complete()
    _engine.meet("reset", _EXCHANGE)
    services = _engine.services()
    for service in services:  # of which this rank may know nothing else
        _engine.doing(service)
    lost = _engine.lost_ranks()
    has_grown = len(_engine.together()) + len(services) < _engine.procs()  # one rank may know that
    serving = next((r for r in services if r not in lost), None)
    told = [said or (None, False, None) for said in allgather((rank, has_grown, serving), "reset")]
    if any(grown for _, grown, _ in told):
        raise Error(
            "reset: ranks have joined since this job began; call acp.refresh() on all ranks first"
        )
    served = next((service for *_, service in told if service is not None), None)
    if served is not None:
        raise Error(
            f"reset: rank {served} is a service of this job, and addresses that it has would die: "
            "end it first"
        )
    wanted: list[Any] = list(range(_engine.procs()))
    for here, (own, *_) in zip(_engine.together(), told, strict=True):
        wanted[here] = own  # as it is: what is none must be refused on all ranks
    for gone in lost:
        wanted[gone] = gone
    slots = [0] * len(wanted)
    for old, new in enumerate(_permutation(wanted)):
        slots[new] = _engine.slot_of(old)
    _engine.meet("reset", _EXCHANGE)
    lifecycle.reset()
    _engine.end_channels()
    try:
        _engine.halt()  # else it writes to the mailbox of a rank that is through
        _engine.meet("reset", _EXCHANGE)  # the ranks of a node change theirs in one table
        _engine.remap(slots)
    finally:
        _engine.resume()
    _engine.meet("reset", _EXCHANGE)


def _permutation(wanted: list[Any]) -> list[int]:
    from operator import index  # 14 KB, and few jobs change their ranks

    try:
        ranks = [index(rank) for rank in wanted]
    except TypeError:
        ranks = []
    if sorted(ranks) != list(range(len(wanted))):
        raise RankError(
            f"reset: the ranks {wanted} are not a permutation of 0 to {len(wanted) - 1}; every "
            "process must ask for a different one, and those that have died keep theirs"
        )
    return ranks


def _unusual_buffer(*what: Any) -> Any:
    """Hand on what is rare, and needs NumPy, to the room that is loaded for it."""
    from acp_mpi.rma import buffers

    return buffers.unusual(*what)
