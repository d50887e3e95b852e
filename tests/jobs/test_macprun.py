"""`macprun`: real groups of both kinds, their output, their failures, and nothing left behind."""

import contextlib
import os
import re
import shlex
import signal
import socket
import sys
import traceback
from pathlib import Path

import launch
import pytest
from macprunning import MACPRUN, alone, is_said, macprun, mpi, nothing_is_left

import acp_mpi as acp
from acp_mpi.spawn.macprun import control


def join(*names):
    """Join, and see that everything is one rank space."""
    with acp.init():
        assert tuple(group.name for group in acp.groups()) == names
        assert acp.group().has_mpi == ("mpi4py" in sys.modules)
        counter = acp.query_starter_ga(0)
        acp.fetch_add8(counter, 1)
        acp.sync()
        assert acp.fetch_add8(counter, 0) == acp.procs()
        acp.sync()
        print(f"rank {acp.rank()} of {acp.procs()}", flush=True)


def fail(code):
    print("the last words", flush=True)
    sys.exit(int(code))


def join_and_leave_with(code):
    with acp.init():
        acp.sync()
    sys.exit(int(code))


def wait_for_ever():
    acp.init()
    print("joined", flush=True)
    with contextlib.suppress(TimeoutError):
        acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1, timeout=100)


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


def ignore_ctrl_c():
    signal.signal(signal.SIGINT, lambda number, frame: print("caught", flush=True))
    print("ready", flush=True)
    while True:
        signal.pause()


def show_surroundings():
    print(sorted(os.environ), flush=True)
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            print("descriptor", number, os.readlink(f"/proc/self/fd/{number}"), flush=True)
    print("processors", sorted(os.sched_getaffinity(0)), flush=True)


def children(pid):
    """Return the children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_programs_with_and_without_mpi_are_one_job(passes):
    names = ("master", "ocean", "ice", "air")
    output = passes(
        macprun(
            alone(2, "master", join, *names),
            *(
                mpi(size, name, join, *names)
                for name, size in (("ocean", 2), ("ice", 1), ("air", 1))
            ),
        )
    )
    for label, rank in ("master.1", 1), ("ocean.1", 3), ("ice.0", 4), ("air.0", 5):
        assert f"[{label}] rank {rank} of 6\n" in output


def test_both_mpis_are_one_job(passes):
    other = os.environ.get("OTHER_PYTHON")
    if not other:
        pytest.skip("no environment with the other MPI beside this one (ACP_TEST_OTHER_PYTHON)")
    names = ("ocean", "ice", "master")
    line = str(Path(other).with_name("mpiexec"))
    output = passes(
        macprun(
            mpi(2, "ocean", join, *names),
            mpi(2, "ice", join, *names, python=other, options=["--launcher", line]),
            alone(1, "master", join, *names),
        )
    )
    for label, rank in ("ocean.1", 1), ("ice.1", 3), ("master.0", 4):
        assert f"[{label}] rank {rank} of 5\n" in output


def test_two_jobs_at_once_never_mix(start):
    jobs = [
        start(macprun(alone(2, name, join, name, "b"), alone(1, "b", join, name, "b")))
        for name in ("a", "c")
    ]
    for job in jobs:
        assert job.wait() == 0, job.output
        assert "rank 2 of 3" in job.output


def test_a_job_file_is_started(passes, tmp_path):
    file = tmp_path / "job.toml"
    commands = [shlex.join(launch.program(join, "master", "worker")) for _ in range(2)]
    file.write_text(
        f"[[group]]\nname = 'master'\ncommand = '''{commands[0]}'''\n"
        f"[[group]]\nname = 'worker'\nprocesses = 2\nmpi = true\ncommand = '''{commands[1]}'''\n"
    )
    assert "[worker.1] rank 2 of 3\n" in passes([str(MACPRUN), "-np", "3", str(file)])


def test_the_input_of_the_c_library_is_started(passes, tmp_path):
    command = shlex.join(launch.program(join, "group0", "group1"))
    line = launch.mpiexec(1)[0]
    file = tmp_path / "input"
    file.write_text(
        f"# two groups\n2\n\nacprun -smemsize 4096\n{line}\n1\n2\n{command}\n{command}\n"
    )
    assert "[group1.1] rank 2 of 3\n" in passes([str(MACPRUN), str(file)])


def test_the_code_of_the_group_that_failed_first_is_returned(start):
    job = start(macprun(alone(1, "good", join_and_leave_with, 0),
                        alone(2, "bad", join_and_leave_with, 7)))  # fmt: skip
    assert job.wait() == 7, job.output
    assert "group 'bad' failed first: rank" in job.output


@pytest.mark.parametrize("kind", [alone, mpi], ids=["directly", "by its launcher"])
def test_init_fails_at_once_if_a_group_ends_before_it_has_joined(start, kind):
    job = start(macprun(kind(1, "early", fail, 3), alone(2, "late", wait_for_ever)))
    assert job.wait(20) == 3, job.output
    assert job.output.count("group 'early' ended before it had joined") == 2
    assert "exit code 3" in job.output
    assert "macprun: its last lines:\n  [early.0] the last words\n" in job.output


def test_a_program_that_is_not_there_is_named(start):
    job = start(macprun([1, "no-such-program"], alone(1, "late", wait_for_ever)))
    assert job.wait(20) == 127, job.output
    assert "no-such-program: No such file" in job.output


def test_a_launcher_that_is_not_there_is_named(start):
    job = start(macprun(mpi(1, "w", join, options=["--launcher", "no-such-mpiexec"])))
    assert job.wait(20) == 1, job.output
    assert job.output.startswith("macprun: there is no launcher 'no-such-mpiexec' in PATH")


@pytest.mark.parametrize(("options", "status"), [((), 137), (("--optional",), 0)])
def test_the_loss_of_a_group_after_joining_does_not_end_the_others(start, options, status):
    job = start(
        macprun(
            alone(1, "master", outlive_the_others),
            alone(1, "worker", wait_for_ever, options=options),
        )
    )
    is_said(job, "joined", 2)
    (worker,) = (pid for pid in job.processes() if _function(pid) == "wait_for_ever")
    os.kill(worker, signal.SIGKILL)
    assert job.wait(20) == status, job.output
    assert "[master.0] went on without them" in job.output
    assert ("group 'worker' failed first: rank 0: killed by SIGKILL" in job.output) == bool(status)


def test_the_launcher_of_a_group_is_killed(start):
    job = start(macprun(alone(1, "master", outlive_the_others), mpi(2, "worker", wait_for_ever)))
    is_said(job, "joined", 3)
    (launcher,) = (
        pid
        for child in children(job.pid)
        for pid in children(child)
        if "python" not in Path(f"/proc/{pid}/exe").readlink().name
    )
    os.kill(launcher, signal.SIGKILL)
    assert job.wait(20) == 137, job.output
    assert "[master.0] went on without them" in job.output
    assert "group 'worker' failed first: killed by SIGKILL" in job.output
    nothing_is_left(job, job.pid)


def test_the_group_whose_rank_was_killed_failed_first(start):
    job = start(macprun(alone(1, "master", die_of_a_loss), mpi(2, "worker", wait_for_ever)))
    is_said(job, "joined", 3)
    *_, victim = sorted(pid for pid in job.processes() if _function(pid) == "wait_for_ever")
    os.kill(victim, signal.SIGKILL)
    assert job.wait(20) in (9, 137), job.output  # as the launcher of the group says it
    assert "macprun: group 'worker' failed first" in job.output


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("victim", ["macprun", "its child"])
def test_all_processes_end_with_macprun(start, victim, joined):
    groups = [alone(2, "master", wait_for_ever), mpi(2, "worker", wait_for_ever)]
    if not joined:
        groups = [alone(2, "master", ignore_ctrl_c), mpi(2, "worker", ignore_ctrl_c)]
    job = start(macprun(*groups))
    is_said(job, "joined" if joined else "ready", 4)
    pid = job.pid if victim == "macprun" else children(job.pid)[0]
    os.kill(pid, signal.SIGKILL)
    assert job.wait() in (-signal.SIGKILL, 137)
    nothing_is_left(job, job.pid)


def test_who_kills_by_name_hits_one_of_the_two(start):
    job = start(macprun(alone(1, "stubborn", ignore_ctrl_c)))
    is_said(job, "ready")
    (child,) = children(job.pid)
    for file in ("comm", "cmdline"):
        assert "macprun" in Path(f"/proc/{job.pid}/{file}").read_text()
        assert "macprun" not in Path(f"/proc/{child}/{file}").read_text()
    assert str(job.pid) in Path(f"/proc/{child}/cmdline").read_text()


def test_a_job_runs_where_its_name_is_taken(start):
    """By another user, or by a process with the same number in another namespace."""
    take = ("import os, socket, sys; name = socket.socket(socket.AF_UNIX); "
            "name.bind('\\0acp_mpi.macprun.%d' % os.getpid()); name.set_inheritable(True); "
            "os.execv(sys.argv[1], sys.argv[1:])")  # fmt: skip
    job = start([sys.executable, "-c", take, *macprun([1, "echo", "done"])])
    assert job.wait() == 0, job.output
    assert "[group0.0] done\n" in job.output
    assert "status and kill will not find this job: Address already in use" in job.output


def test_a_job_runs_without_input_and_output(start, tmp_path):
    script = f"exec <&- >&- 2>&-; exec {shlex.join(macprun([1, 'tee', str(tmp_path / 'file')]))}"
    job = start(["sh", "-c", script])
    assert job.wait() == 0, job.output
    assert (tmp_path / "file").read_bytes() == b""


def count_to_two():
    """End at the second SIGUSR1."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    for word in ("ready", "one", "two"):
        print(word, flush=True)
        if word != "two":
            signal.sigwait([signal.SIGUSR1])


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
    assert job.wait(20) == 0, job.output
    assert "[there.0] two\n" in job.output


def test_a_host_that_does_not_answer_holds_nobody_up(start):
    """Not even if the environment is larger than a pipe."""
    agent = ["--ssh", "sh -c 'exec sleep 1000'", "--listen", "127.0.0.1:0"]
    large = ["--hosts", "elsewhere", "--env", f"A={'a' * 100_000}", "--env", f"B={'b' * 100_000}"]
    job = start(
        macprun(
            alone(1, "silent", fail, 0, options=large),
            alone(1, "here", ignore_ctrl_c),
            options=agent,
        )
    )
    is_said(job, "[here.0] ready")
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait(20) == 143, job.output
    nothing_is_left(job, job.pid)


def test_ctrl_c_is_passed_on_and_the_second_kills(start):
    job = start(macprun(alone(2, "stubborn", ignore_ctrl_c)))
    is_said(job, "ready", 2)
    os.kill(job.pid, signal.SIGINT)
    is_said(job, "caught", 2)
    os.kill(job.pid, signal.SIGINT)
    assert job.wait(20) == 130, job.output
    nothing_is_left(job, job.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_groups_of_both_kinds(start, number):
    job = start(macprun(alone(1, "master", wait_for_ever), mpi(2, "worker", wait_for_ever)))
    is_said(job, "joined", 3)
    os.kill(job.pid, number)
    assert job.wait(20) == 128 + number, job.output
    nothing_is_left(job, job.pid)


def as_nobody(function):
    """Run a function in a child that is another user; return whether it succeeded."""
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setgroups([])
            os.setuid(65534)
            function()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_neither_see_nor_end_a_job(start):
    job = start(macprun(alone(1, "master", ignore_ctrl_c)))
    is_said(job, "ready")

    def look_and_kill():
        assert job.pid not in control.jobs()
        with pytest.raises(acp.Error, match="no macprun of this user"):
            control.ask(job.pid, "kill")
        with socket.socket(socket.AF_UNIX) as stranger:  # who keeps to no rules
            stranger.connect(f"\0acp_mpi.macprun.{job.pid}")
            with contextlib.suppress(ConnectionError):
                stranger.sendall(b"kill\n")
                assert stranger.recv(100) == b""

    assert as_nobody(look_and_kill)
    assert job.pid in control.jobs()
    assert control.ask(job.pid, "status")["groups"][0]["ended"] == ""
    control.ask(job.pid, "kill")
    assert job.wait(20) == 143, job.output


@pytest.mark.slow
def test_a_stubborn_job_is_killed_in_the_end(start, passes):
    job = start(macprun(alone(1, "stubborn", ignore_ctrl_c, options=["--env", "A=1"])))
    is_said(job, "ready")
    (program,) = (pid for pid in job.processes() if _function(pid) == "ignore_ctrl_c")
    os.kill(program, signal.SIGSTOP)  # it will not even see that it is asked
    passes([str(MACPRUN), "kill", str(job.pid)])
    assert job.wait(20) == 143, job.output


def test_output_is_kept_by_group_and_rank(passes, tmp_path):
    folder = tmp_path / "kept"
    passes(
        macprun(
            alone(2, "master", join, "master", "worker"),
            mpi(2, "worker", join, "master", "worker"),
            options=["--output-dir", folder],
        )
    )
    assert {
        str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*.out")
    } == {
        "master/0.out": "rank 0 of 4\n",
        "master/1.out": "rank 1 of 4\n",
        "worker/0.out": "rank 2 of 4\n",
        "worker/1.out": "rank 3 of 4\n",
    }  # fmt: skip


def test_output_that_cannot_be_kept_is_refused_before_anything_starts(start, tmp_path):
    (tmp_path / "file").touch()
    job = start(macprun([1, "echo", "started"], options=["--output-dir", tmp_path / "file"]))
    assert job.wait(20) == 1, job.output
    assert "File exists" in job.output
    assert "started" not in job.output


def test_nothing_of_a_launcher_leaks_into_the_groups(passes):
    """Macprun itself is started by mpiexec here, and has a descriptor and settings of the user."""
    inner = macprun(alone(1, "master", show_surroundings), mpi(2, "worker", show_surroundings))
    names = ("OMPI_MCA_btl", "PRTE_MCA_x", "UCX_X", "MPIR_CVAR_X", "SLURM_PROCID", "SLURM_STEP_ID")
    exports = "; ".join(f"export {name}=1" for name in names)
    script = f"exec 9</dev/null; {exports}; exec {shlex.join(inner)}"
    output = passes([*launch.mpiexec(1), "sh", "-c", script], {"ACP_PATH": "link"})
    own = "\n".join(line for line in output.splitlines() if "[master.0]" in line)
    for name in ("OMPI_MCA_btl", "PRTE_MCA_x", "UCX_X", "MPIR_CVAR_X", "ACP_PATH", "ACP_GROUP"):
        assert repr(name) in own
    assert not re.search(r"'(PMI|PMIX|PRTE_(?!MCA)|HYD|OMPI_COMM|SLURM)", own), own
    numbers = re.findall(r"descriptor (\d+)", own)
    assert set(map(int, numbers)) <= {0, 1, 2, 3}, own  # 3 is that of the folder that it reads
    everyone = str(sorted(os.sched_getaffinity(0)))
    assert re.findall(r"processors (\[.*\])", output) == [everyone] * 3


def test_groups_on_one_host_do_not_share_one_processor(passes):
    """Open MPI binds the processes of each of its groups to the first cores."""
    unset = [f"-uPRTE_MCA_{name}" for name in
             ("hwloc_default_binding_policy", "rmaps_default_mapping_policy")]  # fmt: skip
    groups = (mpi(1, name, show_surroundings) for name in "ab")
    output = passes(["env", *unset, *macprun(*groups)])
    everyone = str(sorted(os.sched_getaffinity(0)))
    assert re.findall(r"processors (\[.*\])", output) == [everyone] * 2


def test_the_first_group_has_the_input(passes):
    words = shlex.join(macprun([1, "cat"], [1, "wc", "-c"]))
    output = passes(["sh", "-c", f"echo hello | {words}"])
    assert sorted(output.splitlines()) == ["[group0.0] hello", "[group1.0] 0"]


def test_check_shows_and_starts_nothing(passes):
    groups = [1, "--name", "a", "touch", "x"], [2, "--mpi", "--name", "b", "true"]
    output = passes([str(MACPRUN), "check", *macprun(*groups)[1:]])
    assert "a: slot 0, without MPI, on localhost:1" in output
    assert "b: slots 1-2, MPI, on localhost:2" in output
    assert re.search(r"mpiexec .*-n 2 true$", output, re.M)
    assert "ACP_SECRET=(secret)" in output
    assert "touch x" in passes(macprun(*groups, options=["--dry-run"]))


def test_the_secret_is_in_no_command_line(start):
    job = start(macprun(alone(1, "master", wait_for_ever), mpi(2, "worker", wait_for_ever)))
    is_said(job, "joined", 3)
    seen = 0
    for pid in job.processes():
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if word.startswith(b"ACP_SECRET="):
                seen += 1
                assert word.partition(b"=")[2] not in line
    assert seen
    os.kill(job.pid, signal.SIGTERM)
    job.wait(20)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-n", "0", "true"], "expected a number of processes"),
        (["-n", "1"], "no command"),
        (["-n", "1", "--name", "a", "true", ":", "-n", "1", "--name", "a", "true"], "two groups"),
        (["-n", "1", "--launcher", "mpiexec", "true"], "no MPI"),
        (["-n", "1", "true", ":", "true"], "begin it with -n"),
        (["no-such-file"], "no-such-file"),
        ([], "nothing to start"),
        (["--strange"], "--help"),
    ],
)
def test_a_wrong_command_line_is_explained(start, words, text):
    job = start([str(MACPRUN), *words])
    assert job.wait(20) == 2, job.output
    assert job.output.startswith("macprun: ")
    assert text in job.output


def _function(pid):
    """Return the name of the test function that a process runs."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return ""
    return words[3] if len(words) > 3 and words[1].endswith("program.py") else ""
