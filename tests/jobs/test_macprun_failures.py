"""Groups of `macprun` that fail or are killed: the code, who failed first, the others go on."""

import os
import re
import select
import signal
import sys

import launch
import pytest
from macprunning import (
    alone,
    function_of,
    is_said,
    launcher,
    macprun,
    mpi,
    nothing_is_left,
    seen_segments,
    wait_for_ever,
)

import acp_mpi as acp
from acp_mpi.launch.macprun.plan import Group
from acp_mpi.launch.macprun.process import Running, first_of
from acp_mpi.launch.macprun.watch import Watch


def join_and_leave_with(code):
    with acp.init():
        acp.sync()
    sys.exit(int(code))


def outlive_the_others():
    """Wait until all ranks of the other group are lost, and go on."""
    acp.init()
    print("joined", flush=True)
    for other in acp.group("worker").ranks:
        with pytest.raises(acp.PeerLostError):
            acp.barrier([acp.rank(), other])
    acp.refresh()
    acp.sync()
    print("went on without them", flush=True)
    acp.finalize()


def die_of_a_loss():
    """Fail as soon as a rank of the other group is lost: before its launcher has noticed."""
    acp.init()
    print("joined", flush=True)
    acp.barrier([acp.rank(), acp.group("worker").ranks[-1]])


def join_and_hear_of_nothing():
    """Join and call nothing: one that waited for the lost rank would end its group itself."""
    acp.init()
    print("joined", flush=True)
    signal.pause()


def test_the_code_of_the_group_that_failed_first_is_returned(start):
    job = start(macprun(alone(1, "good", join_and_leave_with, 0),
                        alone(2, "bad", join_and_leave_with, 7)))  # fmt: skip
    assert job.wait() == 7, job.output
    assert "group 'bad' failed first: rank" in job.output


@pytest.mark.parametrize(("options", "status"), [((), 137), (("--optional",), 0)])
def test_the_loss_of_a_group_after_joining_does_not_end_the_others(start, options, status):
    job = start(
        macprun(
            alone(1, "master", outlive_the_others),
            alone(1, "worker", wait_for_ever, options=options),
        )
    )
    is_said(job, "joined", 2)
    (worker,) = (pid for pid in job.processes() if function_of(pid) == "wait_for_ever")
    os.kill(worker, signal.SIGKILL)
    assert job.wait() == status, job.output
    assert "[master.0] went on without them" in job.output
    assert ("group 'worker' failed first: rank 0: killed by SIGKILL" in job.output) == bool(status)


def test_the_launcher_of_a_group_is_killed(start):
    job = start(macprun(alone(1, "master", outlive_the_others), mpi(2, "worker", wait_for_ever)))
    is_said(job, "joined", 3)
    files = seen_segments(job)
    os.kill(launcher(job), signal.SIGKILL)
    assert job.wait() == 137, job.output
    assert "[master.0] went on without them" in job.output
    assert "group 'worker' failed first: killed by SIGKILL" in job.output
    nothing_is_left(job, job.pid, files)


@pytest.mark.smoke
def test_the_group_whose_rank_was_killed_failed_first(start):
    function = join_and_hear_of_nothing
    job = start(macprun(alone(1, "master", die_of_a_loss), mpi(2, "worker", function)))
    is_said(job, "joined", 3)
    files = seen_segments(job)
    *_, victim = sorted(pid for pid in job.processes() if function_of(pid) == function.__name__)
    os.kill(victim, signal.SIGKILL)
    assert job.wait() in (9, 137), job.output  # as the launcher of the group says it
    assert "macprun: group 'worker' failed first" in job.output
    assert re.search(r"rank [12] is rank [01] of group 'worker'\n.*on rank 0 of 3", job.output)
    nothing_is_left(job, job.pid, files)


def test_who_failed_first_while_macprun_was_held_up(start):
    """It hears of the end of a rank and of what came of that at the same time."""
    function = join_and_hear_of_nothing
    job = start(macprun(alone(1, "master", die_of_a_loss), mpi(2, "worker", function)))
    is_said(job, "joined", 3)
    (master,) = (pid for pid in job.processes() if function_of(pid) == die_of_a_loss.__name__)
    *_, victim = sorted(pid for pid in job.processes() if function_of(pid) == function.__name__)
    supervisor = int(launch.stat(master)[1])
    launch.freeze(supervisor)
    os.kill(victim, signal.SIGKILL)
    launch.until(lambda: launch.stat(master)[0] == "Z")
    os.kill(supervisor, signal.SIGCONT)
    assert job.wait() in (9, 137), job.output
    assert "macprun: group 'worker' failed first" in job.output


class Failure:
    """A group that failed: when, with which exit code, and how its first rank ended.

    `misses`: it has said that this was the loss of another.
    """

    def __init__(self, at, code, *statuses, misses=False, told_to_end_at=10.0, ended_well_at=None):
        self.group = Running(Group("bereaved" if misses else "any", 1, ("true",)))
        self.group.failed_at, self.group.status = at, code
        self.group.doomed_at = told_to_end_at
        self.group.lost = [(ended_well_at, None)] if ended_well_at is not None else []
        self.group.lost += [(at, status) for status in statuses]


@pytest.mark.parametrize(
    ("failures", "first"),
    [
        ([Failure(5.0, 1), Failure(5.02, 137, 9)], 1),
        ([Failure(5.0, 1), Failure(5.02, 137)], 1),
        ([Failure(5.0, 1), Failure(6.0, 137, 9)], 0),
        ([Failure(5.0, 1), Failure(5.02, 1, 1 << 8, 15)], 0),
        ([Failure(5.0, 1), Failure(5.02, 1, None)], 0),
        ([Failure(5.02, 137, 9), Failure(5.0, 137, 9)], 1),
        ([Failure(5.0, 9), Failure(5.02, 143, told_to_end_at=5.01)], 0),
        ([Failure(5.0, 1), Failure(5.02, 255)], 0),
        ([Failure(5.0, 1), Failure(5.02, 137, 9, ended_well_at=1.0)], 1),
        ([Failure(5.02, 3), Failure(5.0, 1, 1 << 8, misses=True)], 0),
        ([Failure(5.0, 3), Failure(5.02, 9, 9, misses=True)], 0),
        ([Failure(5.0, 1, misses=True), Failure(5.02, 9, 9, misses=True)], 1),
        ([Failure(6.0, 3), Failure(5.0, 9, 9, misses=True)], 1),
    ],
    ids=[
        "killed",
        "child-killed",
        "later",
        "ended-then-killed",
        "not-known",
        "both-killed",
        "told",
        "code-of-minus-one",
        "one-before-ended-well",
        "bereaved-before-it-is-known",
        "bereaved-killed-by-its-launcher",
        "both-bereaved",
        "bereaved-long-before",
    ],
)
def test_who_failed_first_of_those_that_failed_at_the_same_time(failures, first):
    groups = [failure.group for failure in failures]
    assert first_of(groups, {"bereaved"}) is groups[first]


def fail_alone():
    """The others hear of it, and their launcher kills those that have not ended."""
    acp.init()
    acp.sync()
    os._exit(3)


def wait_for_who_fails():
    acp.init()
    acp.sync()
    acp.recv(source=0)


@pytest.mark.slow
def test_who_fails_is_named_and_not_those_that_its_loss_ends(start):
    for _ in range(10):
        job = start(macprun(alone(1, "bad", fail_alone), mpi(3, "others", wait_for_who_fails)))
        assert job.wait() == 3, job.output
        assert "group 'bad' failed first: rank 0: exit code 3" in job.output


def end_in_turn(*order):
    """Leave the job and MPI, and end with a code, after the rank before this one in the order.

    If that has failed it has been collected: macprun, held up, would hear of both at the same time.
    """
    codes = {int(rank): int(code) for rank, code in (word.split(":") for word in order)}
    acp.init()
    rank, pids = acp.rank(), acp.allgather(os.getpid())
    turn = list(codes).index(rank)
    other = list(codes)[turn - 1]
    before = os.pidfd_open(pids[other]) if turn else None
    acp.sync()
    acp.finalize()
    if MPI := sys.modules.get("mpi4py.MPI"):
        MPI.Finalize()
    if before is not None:
        select.select([before], [], [])
        launch.until(lambda: not codes[other] or is_collected(before))
    sys.exit(codes[rank])


def is_collected(pidfd):
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return True
    return False


def how_is_known():
    """Return whether this kernel says how a process ended that its parent has collected."""
    child = os.fork()
    if not child:
        os._exit(3)
    watch = Watch(child)
    os.waitpid(child, 0)
    known = watch.status() is not None
    watch.close()
    return known


@pytest.mark.skipif(not how_is_known(), reason="Linux before 6.15 does not say how others ended")
def test_a_rank_that_ends_well_is_no_failure_of_its_group(start):
    order = "0:0", "2:8", "1:7"
    job = start(macprun(mpi(2, "slow", end_in_turn, *order), alone(1, "bad", end_in_turn, *order)))
    assert job.wait() == 8, job.output
    assert "group 'bad' failed first: rank 0: exit code 8" in job.output


def test_how_a_process_ended_is_seen_before_its_parent_collects_it():
    for end, status in ((lambda: os._exit(7), 7 << 8), (lambda: os.kill(os.getpid(), 9), 9)):
        child = os.fork()
        if not child:
            end()
        watch = Watch(child)
        select.select([watch], [], [])
        assert watch.status() == status
        os.waitpid(child, 0)
        watch.close()


INHERITED = (
    "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])",
)


@pytest.mark.parametrize("inherited", INHERITED)
def test_the_code_is_returned_although_who_starts_macprun_hears_of_no_child(start, inherited):
    program = f"import os, signal, sys; {inherited}; os.execv(sys.argv[1], sys.argv[1:])"
    job = start([sys.executable, "-c", program, *macprun([1, "sh", "-c", "exit 7"])])
    assert job.wait() == 7, job.output


UNREAD = "r, w = os.pipe(); os.close(r); os.dup2(w, 1); os.dup2(w, 2)"  # a pipe without a reader


@pytest.mark.parametrize(
    ("command", "code"), [(["sh", "-c", "echo said; exit 7"], 7), (["no-such-program"], 127)]
)
def test_the_code_is_returned_although_nobody_reads(start, command, code):
    program = f"import os, sys; {UNREAD}; os.execv(sys.argv[1], sys.argv[1:])"
    job = start([sys.executable, "-c", program, *macprun([1, *command], [1, "sleep", "0.1"])])
    assert job.wait() == code
