"""The members of the job of this process: ranks, groups, accepted losses, newcomers."""

from __future__ import annotations

import os

from acp_mpi.engine import _engine
from acp_mpi.errors import NotInitializedError
from acp_mpi.job.join import Group, Job
from acp_mpi.util import lifecycle, log

DOING = (
    "computes", "is in complete", "is in sync", "is in barrier", "is in wait_until",
    "is in lookup", "is in unregister_memory", "is in finalize", "waits for a lock",
    "is in recv", "is in send", "is in probe", "is in a collective",
)  # fmt: skip

_job: Job | None = None


def enter(job: Job | None) -> None:
    """Have this process be in a job from now on, or, with None, in no job."""
    global _job
    _job = job


def in_a_job() -> bool:
    """Return whether this process is in a job."""
    return _job is not None


def job() -> Job:
    """Return what this process knows of its job."""
    if _job is None:
        raise NotInitializedError("acp_mpi: call acp.init() first")
    return _job


def ranks(*, services: bool = False) -> list[int]:
    """Return the ranks that live, as far as this process knows.

    `services`: with the ranks of services, as of a delegate, which no other call means by all.
    """
    lost = set(_engine.lost_ranks())
    return _but(lost if services else lost.union(_engine.services()))


def refresh() -> list[int]:
    """Accept the loss of ranks, and learn of those that have joined since; return the living.

    From now on `sync` and collectives mean these, so all members of a call must know the same; a
    member that dies later is still among them. `finalize` always means those that joined the job
    together.
    """
    _engine.refresh()
    learn_of_newcomers()
    _engine.widen()
    lifecycle.refresh()
    return _but({*_engine.lost_ranks(accepted=True), *_engine.services()})


def _but(these: set[int]) -> list[int]:
    return [r for r in range(_engine.procs()) if r not in these]


def learn_of_newcomers() -> None:
    """Ask the registry for groups that have joined, if there is one."""
    known = job()
    if known.registry is None:
        from acp_mpi.job.registry import locate

        known.registry = locate.find(known.founders)
    if known.registry is not None:
        # a job that does not grow has none
        from acp_mpi.job.registry.client import NoRegistryError, Question

        try:
            with Question(known.registry, known.place.secret) as question:
                known.learn(question.answer())
        except NoRegistryError as reason:  # the process goes on with the members that it knows
            log.warning("members", "nothing is learnt of groups that have joined: %s", reason)


def groups() -> list[Group]:
    """Return the groups of the job in the order of their slots."""
    _engine.demand("groups")
    return job().groups()


def group(name: str | None = None) -> Group:
    """Return the group called `name`, or the caller's own."""
    _engine.demand("group")
    if name is not None and not job().has_group(name):
        learn_of_newcomers()
    return job().group(name)


def say_who_is_missing() -> None:
    """Log what the other ranks do while this one has waited for a minute."""
    here = _engine.rank()
    states: list[str] = []
    for r in ranks():
        if r == here:
            continue
        if len(states) == 16:
            break
        doing = _engine.doing(r)
        what = DOING[doing] if 0 <= doing < len(DOING) else "does not answer"
        states.append(f"rank {r} ({_group_of(r)}) {what}")
    awaited = _engine.awaited()
    mine = f"is in {awaited}" if awaited else DOING[max(_engine.doing(here), 0)]
    if short := _engine.shortage():
        mine += (
            f", and cannot open a connection ({os.strerror(short)}): see the limits of this "
            "process (ulimit -a)"
        )
    log.warning(
        "runtime", "%s", "; ".join([f"rank {here} has waited for 60 s and {mine}", *states])
    )


def _group_of(rank: int) -> str:
    for g in groups():
        if rank in g.ranks:
            return f"group {g.name}"
    return "no group"
