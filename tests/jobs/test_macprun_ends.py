"""Jobs of `macprun` that are told to end, or lose macprun: all end, nothing is left."""

import contextlib
import ctypes
import os
import shlex
import signal
from pathlib import Path

import launch
import pytest
from macprunning import (
    MACPRUN,
    alone,
    children,
    function_of,
    ignore_ctrl_c,
    is_said,
    launcher,
    macprun,
    mpi,
    nothing_is_left,
    ranks,
    seen_segments,
    variables,
    wait_for_ever,
)

import acp_mpi as acp


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_all_processes_end_also_while_nobody_takes_what_is_said(start, number):
    job = start(["sh", "-c", f"{shlex.join(macprun([1, 'yes']))} | sleep 1000"])
    launch.until(lambda: _is_held_up(job), job)
    (pid,) = _named(job, "macprun")
    os.kill(pid, number)
    launch.until(lambda: not _named(job, "yes"))


def _is_held_up(job):
    """Return whether the pipe is full: who writes there sleeps, and who writes to that one."""
    writers = [*_named(job, "acp_mpi supervi"), *_named(job, "yes")]
    return len(writers) == 2 and all(launch.stat(pid)[0] == "S" for pid in writers)


def _named(job, name):
    names = {}
    for pid in job.processes():
        with contextlib.suppress(OSError):  # it has ended
            names[pid] = Path(f"/proc/{pid}/comm").read_text().rstrip()
    return [pid for pid in names if names[pid] == name]


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("victim", ["macprun", "its child"])
def test_all_processes_end_with_macprun(start, victim, joined):
    groups = [alone(2, "master", wait_for_ever), mpi(2, "worker", wait_for_ever)]
    if not joined:
        groups = [alone(2, "master", ignore_ctrl_c), mpi(2, "worker", ignore_ctrl_c)]
    job = start(macprun(*groups))
    is_said(job, "joined" if joined else "ready", 4)
    files = seen_segments(job) if joined else ()
    pid = job.pid if victim == "macprun" else children(job.pid)[0]
    os.kill(pid, signal.SIGKILL)
    assert job.wait() in (-signal.SIGKILL, 137)
    nothing_is_left(job, job.pid, files)


def hold_on(spawns):
    """Be one whom SIGTERM does not end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    acp.init()
    if spawns == "True":
        acp.spawn_group(launch.program(hold_on, False), 1, mpi=False)
    print("joined", flush=True)
    signal.pause()


def test_no_rank_stays_when_both_processes_of_macprun_are_killed_at_once(start):
    """Whoever has started it for macprun: macprun itself, a shell, a launcher, another rank."""
    in_a_shell = ["sh", "-c", '"$@"; true', "sh", *launch.program(hold_on, False)]
    job = start(
        macprun(
            alone(1, "here", hold_on, True),
            [1, "--name", "shell", *in_a_shell],
            mpi(2, "worker", hold_on, False),
        )
    )
    is_said(job, "joined", 5)
    files = seen_segments(job)
    both = [*children(job.pid), job.pid]
    assert _who_can_write_to_the_lifeline(job) == set(both)
    for number in signal.SIGSTOP, signal.SIGKILL:  # at once
        for pid in both:
            os.kill(pid, number)
    job.wait()
    nothing_is_left(job, job.pid)
    for file in files:  # there is nobody who would
        Path(file).unlink(missing_ok=True)


def _who_can_write_to_the_lifeline(job):
    (line,) = {
        word.rpartition(b":")[2].decode()
        for pid in job.processes()
        for word in variables(pid)
        if word.startswith(b"ACP_LIFELINE=")
    }
    found = set()
    for pid in job.processes():
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(link) == f"pipe:[{line}]":
                    info = Path(f"/proc/{pid}/fdinfo/{link.name}").read_text()
                    flags = int(info.partition("flags:")[2].split()[0], 8)
                    found |= {pid} if flags & os.O_ACCMODE == os.O_WRONLY else set()
    return found


def test_no_program_stays_when_both_processes_of_macprun_are_killed_at_once(start):
    job = start(macprun([1, "--name", "silent", "sleep", "1000"]))
    launch.until(lambda: _named(job, "sleep"), job)
    for pid in [*children(job.pid), job.pid]:
        os.kill(pid, signal.SIGKILL)
    job.wait()
    nothing_is_left(job, job.pid)


def test_who_kills_by_name_hits_one_of_the_two(start):
    job = start(macprun(alone(1, "stubborn", ignore_ctrl_c)))
    is_said(job, "ready")
    (child,) = children(job.pid)
    for file in ("comm", "cmdline"):
        assert "macprun" in Path(f"/proc/{job.pid}/{file}").read_text()
        assert "macprun" not in Path(f"/proc/{child}/{file}").read_text()
    assert str(job.pid) in Path(f"/proc/{child}/cmdline").read_text()


def count_to_two():
    """End at the second SIGUSR1."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    for word in ("ready", "one", "two"):
        print(word, flush=True)
        if word != "two":
            signal.sigwait([signal.SIGUSR1])


@pytest.mark.smoke
def test_signals_reach_processes_of_all_kinds(start):
    agent = ["--ssh", "sh -c 'exec sh' agent", "--listen", "127.0.0.1:0"]
    job = start(
        macprun(
            alone(1, "here", count_to_two),
            alone(1, "there", count_to_two, options=["--hosts", "elsewhere"]),
            options=agent,
        )
    )
    for word in ("ready", "one"):
        is_said(job, f"] {word}\n", 2)
        os.kill(job.pid, signal.SIGUSR1)
    assert job.wait() == 0, job.output
    assert "[there.0] two\n" in job.output


def wait_under_a_name_that_is_no_text():
    _set_name("日本語の計算".encode()[:14])  # as the system cuts it
    print("named", flush=True)
    signal.pause()


def _set_name(name):
    assert ctypes.CDLL(None).prctl(15, name) == 0  # PR_SET_NAME


def test_a_process_whose_name_is_no_text_disturbs_nobody(start):
    job = start(macprun(alone(1, "named", wait_under_a_name_that_is_no_text)))
    is_said(job, "[named.0] named")
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 143, job.output
    nothing_is_left(job, job.pid)


def join_under_a_name_that_is_no_text():
    _set_name("日本語の計算".encode()[:14])
    with acp.init():
        print("joined", acp.procs(), flush=True)


def test_a_process_whose_name_is_no_text_joins(start):
    job = start(macprun(alone(2, "named", join_under_a_name_that_is_no_text)))
    assert job.wait() == 0, job.output
    assert job.output.count("joined 2") == 2


def test_a_host_that_does_not_answer_holds_nobody_up(start):
    """Not even if the environment is larger than a pipe."""
    agent = ["--ssh", "sh -c 'exec sleep 1000'", "--listen", "127.0.0.1:0"]
    large = ["--hosts", "elsewhere", "--env", f"A={'a' * 100_000}", "--env", f"B={'b' * 100_000}"]
    job = start(
        macprun(
            alone(1, "silent", wait_for_ever, options=large),
            alone(1, "here", ignore_ctrl_c),
            options=agent,
        )
    )
    is_said(job, "[here.0] ready")
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 143, job.output
    nothing_is_left(job, job.pid)


def test_ctrl_c_is_passed_on_and_the_second_kills(start):
    job = start(macprun(alone(2, "stubborn", ignore_ctrl_c)))
    is_said(job, "ready", 2)
    os.kill(job.pid, signal.SIGINT)
    is_said(job, "caught", 2)
    os.kill(job.pid, signal.SIGINT)
    assert job.wait() == 130, job.output
    nothing_is_left(job, job.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_groups_of_both_kinds(start, number):
    job = start(macprun(alone(1, "master", wait_for_ever), mpi(2, "worker", wait_for_ever)))
    is_said(job, "joined", 3)
    files = seen_segments(job)
    os.kill(job.pid, number)
    assert job.wait() == 128 + number, job.output
    nothing_is_left(job, job.pid, files)


def test_a_signal_reaches_ranks_that_their_launcher_cannot_reach_any_more(start):
    """Hydra's helper on the host was killed: its ranks live on, and it waits for them."""
    job = start(macprun(mpi(2, "worker", wait_for_ever)))
    is_said(job, "joined", 2)
    files = seen_segments(job)
    helpers = [pid for pid in children(launcher(job)) if pid not in ranks(job)]
    if not helpers:
        pytest.skip("this launcher starts its ranks itself")
    for pid in helpers:
        os.kill(pid, signal.SIGKILL)
    (supervisor,) = children(job.pid)
    launch.until(lambda: set(ranks(job)) <= set(children(supervisor)), job)
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait() == 143, job.output
    nothing_is_left(job, job.pid, files)


@pytest.mark.slow
def test_a_stubborn_job_is_killed_in_the_end(start, passes):
    job = start(macprun(alone(1, "stubborn", ignore_ctrl_c, options=["--env", "A=1"])))
    is_said(job, "ready")
    (program,) = (pid for pid in job.processes() if function_of(pid) == "ignore_ctrl_c")
    launch.freeze(program)  # it will not even see that it is asked
    passes([str(MACPRUN), "kill", str(job.pid)])
    assert job.wait() == 143, job.output
