"""The delegate: commands of ranks, in their order, by few threads.

One thread copies what is to be written, so that its owner may go on; two read and write files; one
calls functions of the program; one folds what ranks bring together, if that takes longer than to
hand it over; one talks to delegates of other nodes. A command waits for the one before it of the
same file, and for the one that it is to follow.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial

from acp_mpi.delegates.commands import WAITS, Commands, with_path
from acp_mpi.delegates.frames import COPIED, DONE, FAILED, portable
from acp_mpi.delegates.job import Job, Nobody
from acp_mpi.delegates.meetings import Call, Meeting, Meetings, Work, first_dead, planned
from acp_mpi.delegates.nodes import Errand, Nodes
from acp_mpi.delegates.rings import Rings
from acp_mpi.delegates.short_folds import Given, ShortFolds
from acp_mpi.delegates.spares import Spares
from acp_mpi.delegates.start import node_of
from acp_mpi.engine import _engine
from acp_mpi.errors import PeerLostError
from acp_mpi.job import membership

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from acp_mpi.delegates.job import Client

_LANES = {"copy": 1, "files": 2, "call": 1, "meet": 1, "nodes": 1}  # and how many threads each has
_TOGETHER = frozenset(("meet", "across", "brought", "release", "gone", "about"))


class Server:
    """What executes commands."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._held = 0  # bytes of copies
        self._spares = Spares(memory)
        self._changed = threading.RLock()
        self._come = {lane: threading.Condition(self._changed) for lane in _LANES}
        self._gone: dict[int, str] = {}  # ranks of this node that have closed or died, and why
        self._meetings = Meetings(self._gone)
        self._short_folds = ShortFolds(self._meetings)
        self.nodes = Nodes(self.end)
        self._gates: dict[tuple[Client, int], Job] = {}  # of calls of other nodes that are held
        self._lanes: dict[str, deque[Any]] = {lane: deque() for lane in _LANES}
        self._jobs: dict[tuple[Client, int], Job] = {}
        self._last: dict[str, Job] = {}  # of a path
        self._do = Commands(self, self._gone)
        self._rings = Rings(self.command)
        self._ending = False
        self._commands = 0
        self._threads = [
            threading.Thread(target=self._work, args=(lane,), name=f"delegate-{lane}", daemon=True)
            for lane, count in _LANES.items()
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def command(
        self,
        client: Client,
        number: int,
        said: tuple[str, int | None, tuple[Any, ...]],
        fired: int | None = None,
    ) -> None:
        """Take a command in."""
        self._settle()
        name, after, arguments = said
        if name == "ring":
            client.answer(number, *self._rings.do(client, *arguments))
            return
        job = Job(client, number, name, arguments)
        job.fired = fired
        if name in _TOGETHER:
            getattr(self, f"_take_{name}")(job, after, *arguments)
            return
        with self._changed:
            self._note(job, after)
            if job.path is not None:
                if last := self._last.get(job.path):
                    job.before = [*job.before, last]
                self._last[job.path] = job
            if lane := job.lane(self._memory):
                self._queue(lane, job)
        if lane is None:
            self.end(job, DONE, self._statistics() if name == "statistics" else None)

    def fold(self, client: Client, number: int, said: bytes) -> None:
        """Take a fold in that is planned: a call that came before, perhaps with other bytes."""
        end = 1 + said[0]
        one = Given(client, number, said[:end], said[end:])
        with self._changed:
            if one.data and self._short_folds.take(one):
                self._commands += self._short_folds.finish(one)
                return
            self._settle()
        self._fold(one)

    def _settle(self) -> None:
        """Have the short folds to which ranks come be meetings: something else has come."""
        with self._changed:
            for one in self._short_folds.leave():
                self._fold(one)

    def _fold(self, one: Given) -> None:
        job = Job(one.client, one.number, "meet", ())
        job.given = one.data or None
        self._take_meet(job, None, *planned(one.plan))

    def _take_meet(self, job: Job, after: int | None, *call: Any) -> None:
        self._note(job, after)
        self._join(job, Call(*call))

    def _take_across(self, job: Job, after: int | None, *call: Any) -> None:
        """Take in a call of a collective of ranks on several nodes."""
        self._note(job, after)
        self._queue("nodes", Errand(partial(self._bring, job, Call(*call)), job))
        if job.before:
            self._queue("nodes", Errand(partial(self.nodes.release, job), job, job.before))

    def _bring(self, job: Job, call: Call) -> None:
        if self.nodes.send(job, call):
            self._join(job, call)

    def _take_brought(self, job: Job, _: None, held: bool, *fields: Any) -> None:
        """Take in such a call from the delegate of another node."""
        call = Call(*fields)
        if held:
            self._gates[job.client, job.number] = Job(job.client, job.number, "gate", ())
            job.before = [self._gates[job.client, job.number]]
        self._note(job, None)
        try:
            self.nodes.check(call)
        except PeerLostError as error:
            self.end(job, FAILED, error)
            return
        self._join(job, call)
        self._queue("nodes", Errand(partial(self._watch, call.ranks)))

    def _watch(self, ranks: tuple[int, ...]) -> None:
        self.nodes.watch(ranks)
        if (dead := first_dead(ranks)) is not None:
            self.lose(dead, "has died")

    def _take_release(self, job: Job, _: None, number: int) -> None:
        with self._changed:
            if gate := self._gates.pop((job.client, number), None):
                gate.over = True
                self._wake()

    def _take_about(self, job: Job, _: None, number: int) -> None:
        """Say which ranks a command of this client waits for."""
        asked = self._jobs.get((job.client, number))
        if asked is not None and asked.name == "across" and self.nodes.ask(job, asked):
            return
        missing: list[int] = []
        if asked is not None:
            with self._changed:
                missing = self._meetings.missing(asked) or self._do.checkpoints.missing(asked)
        who = f"rank {missing[0]} has" if len(missing) == 1 else f"ranks {missing} have"
        job.client.answer(job.number, DONE, f"for {who} not come" if missing else "")

    def _take_gone(self, job: Job, _: None, rank: int, why: str) -> None:
        self.lose(rank, why)

    def _note(self, job: Job, after: int | None) -> None:
        with self._changed:
            self._commands += job.name not in ("drop", "abandon")
            if after is not None and (earlier := self._jobs.get((job.client, after))):
                job.before = [*job.before, earlier]
            self._jobs[job.client, job.number] = job

    def _join(self, job: Job, call: Call) -> None:
        with self._changed:
            if job.given is None:
                job.given = call.given
            meeting = self._meetings.take(job, call)
        self._meet(meeting)

    def _meet(self, meeting: Meeting) -> None:
        """Go on with a collective to which another rank has come."""
        if meeting.failed is not None:
            self._give_up(meeting)
        elif len(meeting.jobs) == len(meeting.ranks):
            work = Work(meeting)
            if work.short and all(job.over for job in meeting.before):
                self._work_together(work)
            else:
                self._queue("meet", work)

    def _work_together(self, work: Work) -> None:
        try:
            work.do()
        except BaseException as error:
            work.meeting.failed = portable(error)
            self._give_up(work.meeting)
            return
        with self._changed:
            self._leave(*work.meeting.jobs.values())
        for job, answer in work.answers():
            job.answer(DONE, answer)

    def _give_up(self, meeting: Meeting) -> None:
        for job in list(meeting.jobs.values()):
            if not job.over:
                self.end(job, FAILED, meeting.failed)

    def _statistics(self) -> tuple[Any, ...]:
        return (
            self._commands, self._do.read, self._do.written, len(self._jobs) - 1, self._held,
            time.process_time(),
        )  # fmt: skip

    def _queue(self, lane: str, job: Any) -> None:
        with self._changed:
            self._lanes[lane].append(job)
            self._come[lane].notify()

    def _next(self, lane: str) -> Any:
        queue = self._lanes[lane]
        if lane == "copy":  # in order: others wait behind one that is too long for what is left
            fits = queue and queue[0].size + self._held <= self._memory
            return queue.popleft() if fits else None
        for job in queue:
            if all(earlier.over for earlier in job.before):
                queue.remove(job)
                return job
        return None

    def _work(self, lane: str) -> None:
        while True:
            with self._changed:
                while (job := self._next(lane)) is None:
                    if self._ending and all(job.waits for job in self._jobs.values()):
                        return
                    self._come[lane].wait()
                if lane == "copy":
                    job.held = job.size
                    self._held += job.held
            try:
                if lane == "copy":
                    self._copy(job)
                    continue
                if lane == "meet":
                    self._work_together(job)
                    continue
                if lane == "nodes":
                    self._run(job)
                    continue
                result, kind = getattr(self._do, job.name)(job, *job.arguments), DONE
            except BaseException as error:
                result, kind = portable(with_path(error, job.path)), FAILED
            if result is WAITS:
                self._set_aside(job)
            else:
                self.end(job, kind, result)

    def _run(self, errand: Errand) -> None:
        try:
            errand.do()
        except Exception as error:
            if errand.job is None:
                raise
            self.end(errand.job, FAILED, portable(error))

    def end(self, job: Job, kind: int, result: Any) -> None:
        """Tell the rank what has become of a command, and let others begin that wait for it."""
        with self._changed:
            self._leave(job)
        job.answer(kind, result)

    def _leave(self, *jobs: Job) -> None:
        for job in jobs:
            job.over = True
            self._let_go(job)
            self._jobs.pop((job.client, job.number), None)
        self._wake()

    def _wake(self) -> None:
        for lane, queue in self._lanes.items():
            if queue or self._ending:  # it may have waited for this
                self._come[lane].notify_all()

    def _let_go(self, job: Job) -> None:
        self._held -= job.held
        if job.copy is not None:
            self._spares.give_back(job.copy)
        job.held, job.copy, job.data, job.before = 0, None, None, ()
        if job.path is not None and self._last.get(job.path) is job:
            del self._last[job.path]

    def _set_aside(self, job: Job) -> None:
        """Its own part is done: others of the same path begin, and it ends with one of them."""
        with self._changed:
            job.waits = True
            self._let_go(job)
            for other in self._jobs.values():
                if other.path == job.path and job in other.before:
                    other.before = [one for one in other.before if one is not job]
            self._wake()

    def _copy(self, job: Job) -> None:
        """Copy what is to be written; a thread for files writes that."""
        with self._changed:
            job.copy = self._spares.take(job.size) if job.size else None
        free, job.data = memoryview(job.copy or b""), []
        for part in job.source:
            job.data.append(free[: part.nbytes])
            free = free[part.nbytes :]
            if part.nbytes:
                _engine.get(part.ga, job.data[-1])
        job.client.answer(job.number, COPIED, None)
        self._queue("files", job)

    def take_along(self, job: Job) -> list[Job]:
        """Return the saves of the same file that wait for nothing else than this one."""
        found: list[Job] = []
        queue = self._lanes["files"]
        with self._changed:
            for other in list(queue):
                waits = [one for one in other.before if one is not job and one not in found]
                if (
                    other.name == "save"
                    and other.path == job.path
                    and all(one.over for one in waits)
                ):
                    queue.remove(other)
                    found.append(other)
        return found

    def forget(self, client: Client) -> None:
        """Drop what is left of a rank: commands, and files of which it has saved only a part."""
        self._settle()
        self._rings.forget(client)
        with self._changed:
            paths = self._do.files.of(client)
            for (whose, _), job in list(self._jobs.items()):
                if whose is not client:
                    continue
                queue = next((q for q in self._lanes.values() if job in q), None)
                if queue is not None:
                    queue.remove(job)
                    self._leave(job)
                elif job.name == "save":  # it is being done
                    paths.add(job.arguments[0])
                elif job.name == "across":
                    self._leave(job)
        for path in paths:
            self.command(Nobody(), 0, ("drop", None, (path, client)))

    def meet(self, rank: int) -> None:
        """Note that a rank may give commands, again perhaps."""
        with self._changed:
            self._gone.pop(rank, None)

    def lose(self, rank: int, why: str) -> None:
        """Give up collectives and checkpoints that others wait for a rank in."""
        with self._changed:
            self._settle()
            if node_of(rank) == node_of(_engine.rank()):
                self._gone.setdefault(rank, why)
            meetings = list(self._meetings.lose(rank, why))
            folders = {job.path for job in self._jobs.values() if job.name == "checkpoint"}
        for meeting in meetings:
            self._give_up(meeting)
        self._queue("nodes", Errand(partial(self.nodes.lose, rank, why)))
        for folder in folders:
            self.command(Nobody(), 0, ("abandon", None, (folder, rank, why)))

    def part_from_other(self, other: Any) -> None:
        """Give up what is under way with it, and with the ranks of its node."""
        node = self.nodes.part(other)
        for rank in [] if node is None else membership.ranks():
            if node_of(rank) == node:
                self.lose(rank, f"has lost its delegate, rank {other.rank}")
        with self._changed:
            for at in [at for at in self._gates if at[0] is other]:
                del self._gates[at]
        self.forget(other)

    def drain(self) -> None:
        """Finish what has come, and end the threads."""
        self._rings.end()
        with self._changed:
            self._ending = True
            for come in self._come.values():
                come.notify_all()
        for thread in self._threads:
            thread.join()
        self._do.close()
