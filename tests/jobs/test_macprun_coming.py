"""Jobs of `macprun` while the groups come together: what it loads, who ends then."""

import contextlib
import importlib.util
import os
import re
import shlex
import signal
import sys

import launch
import pytest
from macprunning import (
    alone,
    children,
    ignore_ctrl_c,
    is_said,
    launcher,
    macprun,
    mpi,
    nothing_is_left,
    ranks,
    segments,
    wait_for_ever,
)

import acp_mpi as acp
from acp_mpi.launch.macprun import control


def fail(code):
    print("the last words", flush=True)
    sys.exit(int(code))


@pytest.mark.parametrize("kind", [alone, mpi], ids=["directly", "by its launcher"])
def test_init_fails_at_once_if_a_group_ends_before_it_has_joined(start, kind):
    job = start(macprun(kind(1, "early", fail, 3), alone(2, "late", wait_for_ever)))
    assert job.wait() == 3, job.output
    assert job.output.count("group 'early' ended before it had joined") == 2
    assert "exit code 3" in job.output
    assert "macprun: its last lines:\n  [early.0] the last words\n" in job.output


def join_and_leave():
    acp.init()
    print("joined", flush=True)
    acp.finalize()


def test_a_second_program_in_the_place_of_the_first_is_refused_at_once(start):
    """Its wait for the rendezvous would last a minute."""
    program = shlex.join(launch.program(join_and_leave))
    job = start(macprun([1, "sh", "-c", f"{program} && {program}"]))
    assert job.wait() == 1, job.output
    assert job.output.count("[group0.0] joined\n") == 1
    assert "the job is complete, and nobody else can join it" in job.output


def test_nobody_is_blamed_for_leaving_when_macprun_says_so(start):
    """While the groups come together: those who are told to end break off their wait."""
    job = start(macprun(alone(2, "early", wait_for_ever), alone(1, "late", ignore_ctrl_c)))
    is_said(job, "[late.0] ready")
    launch.until(lambda: _came(job.pid) == [2, 0], job)
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 143, job.output
    assert "left too early" not in job.output


def test_who_leaves_while_the_others_come_is_named(start):
    job = start(macprun(alone(2, "early", wait_for_ever), alone(1, "late", ignore_ctrl_c)))
    is_said(job, "[late.0] ready")
    launch.until(lambda: _came(job.pid) == [2, 0], job)
    (child,) = children(job.pid)
    os.kill(children(child)[0], signal.SIGKILL)  # it was started first
    is_said(job, "group 'early' ended before it had joined")
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 143, job.output
    assert re.search("^macprun: group 'early' from .* left too early$", job.output, re.MULTILINE)


def wait_for_a_signal():
    print("ready", flush=True)
    signal.pause()


@pytest.mark.parametrize("victim", ["a rank", "the launcher"])
def test_who_waits_hears_that_a_group_with_mpi_was_killed_before_it_had_joined(start, victim):
    job = start(macprun(mpi(2, "early", wait_for_ever), alone(1, "waiting", wait_for_ever),
                        alone(1, "late", wait_for_a_signal)))  # fmt: skip
    launch.until(lambda: _came(job.pid) == [2, 1, 0], job)
    is_said(job, "[late.0] ready")
    os.kill(launcher(job) if victim == "the launcher" else ranks(job)[0], signal.SIGKILL)
    is_said(job, "group 'early' ended before it had joined")
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 143, job.output
    assert "macprun: group 'early' failed first" in job.output
    nothing_is_left(job, job.pid)


def test_ctrl_c_ends_groups_that_wait_for_others(start):
    job = start(macprun(mpi(2, "early", wait_for_ever), alone(1, "late", wait_for_a_signal)))
    launch.until(lambda: _came(job.pid) == [2, 0], job)
    is_said(job, "[late.0] ready")
    files = segments(job)
    os.kill(job.pid, signal.SIGINT)
    assert job.wait() == 130, job.output
    nothing_is_left(job, job.pid, files)


def test_macprun_loads_nothing_but_the_standard_library(passes):
    here = os.path.dirname(sys.executable)  # with mpiexec, which comes before an srun
    tell = {"PYTHONPROFILEIMPORTTIME": "1", "PATH": f"{here}:{os.environ['PATH']}"}
    commands = macprun([1, "true"], [1, "--mpi", "true"]), [sys.executable, "-c", ""]
    ours, of_any_start = (
        {word.split(".")[0] for word in re.findall(r"(?m)^import time: .*\| +([\w.]+)$", text)}
        for text in (passes(command, tell) for command in commands)
    )
    assert {"acp_mpi", "selectors"} <= ours
    others = ours - of_any_start - sys.stdlib_module_names - {"acp_mpi"}
    assert not list(filter(importlib.util.find_spec, others))  # the library tries to find `org`


def _came(pid):
    """Return how many of each group of a macprun have come, once it answers."""
    with contextlib.suppress(acp.Error):
        return [len(group["came"]) for group in control.ask(pid, "status")["groups"]]
    return []
