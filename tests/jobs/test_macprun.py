"""`macprun`: real groups of both kinds, their output, their failures, and nothing left behind."""

import contextlib
import fcntl
import os
import pty
import re
import shlex
import signal
import socket
import subprocess
import sys
import termios
import traceback
from pathlib import Path

import launch
import pytest
from macprunning import (
    MACPRUN,
    alone,
    ignore_ctrl_c,
    is_said,
    macprun,
    mpi,
    wait_for_ever,
)

import acp_mpi as acp
from acp_mpi.launch.macprun import control


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


def show_surroundings():
    print(sorted(os.environ), flush=True)
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            print("descriptor", number, os.readlink(f"/proc/self/fd/{number}"), flush=True)
    print("processors", sorted(os.sched_getaffinity(0)), flush=True)


@pytest.mark.smoke
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


def test_launchers_of_a_job_leave_no_folder_of_their_sessions(passes, tmp_path):
    names = ("ocean", "ice")
    folder = tmp_path / "t"
    folder.mkdir()
    passes(macprun(*(mpi(1, name, join, *names) for name in names)), {"TMPDIR": str(folder)})
    assert not list(folder.iterdir())


@pytest.mark.smoke
def test_both_mpis_are_one_job(passes):
    other = os.environ.get("OTHER_PYTHON")
    if not other:
        pytest.skip("no environment with the other MPI beside this one (OTHER_PYTHON)")
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


def test_a_program_that_is_not_there_is_named(start):
    job = start(macprun([1, "no-such-program"], alone(1, "late", wait_for_ever)))
    assert job.wait() == 127, job.output
    assert "no-such-program: No such file" in job.output


def test_a_launcher_that_is_not_there_is_named(start):
    job = start(macprun(mpi(1, "w", join, options=["--launcher", "no-such-mpiexec"])))
    assert job.wait() == 1, job.output
    assert job.output.startswith("macprun: there is no launcher 'no-such-mpiexec' in PATH")


def test_a_job_runs_without_input_and_output(start, tmp_path):
    script = f"exec <&- >&- 2>&-; exec {shlex.join(macprun([1, 'tee', str(tmp_path / 'file')]))}"
    job = start(["sh", "-c", script])
    assert job.wait() == 0, job.output
    assert (tmp_path / "file").read_bytes() == b""


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


def name_of(pid):
    listed = Path("/proc/net/unix").read_text()  # with the name of who was called at each call
    (name,) = set(re.findall(rf"@(acp_mpi\.macprun\.{pid}\..*)", listed))
    return name


def test_nobody_takes_the_name_under_which_a_job_is_asked(start):
    """It is another one for each job; who takes one that is like it changes nothing."""
    job = start(macprun(alone(1, "master", ignore_ctrl_c)))
    is_said(job, "ready")
    own = name_of(job.pid)
    assert len(own.rpartition(".")[2]) == 32
    with contextlib.ExitStack() as stack:
        for last in ("", "." + "0" * 32):
            like_it = stack.enter_context(socket.socket(socket.AF_UNIX))
            like_it.bind(f"\0acp_mpi.macprun.{job.pid}{last}")  # it does not even listen
        assert job.pid in control.jobs()
        control.ask(job.pid, "kill")
    assert job.wait() == 143, job.output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_neither_see_nor_end_a_job(start):
    job = start(macprun(alone(1, "master", ignore_ctrl_c)))
    is_said(job, "ready")

    def look_and_kill():
        assert job.pid not in control.jobs()
        with pytest.raises(acp.Error, match="not a macprun of this user"):
            control.ask(job.pid, "kill")
        with socket.socket(socket.AF_UNIX) as stranger:  # who keeps to no rules
            stranger.connect(f"\0{name_of(job.pid)}")
            with contextlib.suppress(ConnectionError):
                stranger.sendall(b"kill\n")
                assert stranger.recv(100) == b""

    assert as_nobody(look_and_kill)
    assert job.pid in control.jobs()
    assert control.ask(job.pid, "status")["groups"][0]["ended"] == ""
    control.ask(job.pid, "kill")
    assert job.wait() == 143, job.output


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
    assert job.wait() == 1, job.output
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
    assert not re.search(r"'(PMI_|PMIX_(?!MCA)|PRTE_(?!MCA)|HYD|OMPI_COMM|OPAL|SLURM)", own), own
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


@pytest.mark.parametrize(
    ("words", "answer"),
    [(["exec", "{}"], "hello"), (["set -m;", "{}", "& wait"], "")],
    ids=["in the foreground", "in the background"],
)
def test_a_terminal_is_the_input_unless_a_shell_reads_it(words, answer):
    ask = shlex.join(macprun([1, "sh", "-c", "read answer; echo got $answer"]))
    terminal, end = pty.openpty()
    with subprocess.Popen(
        ["bash", "-c", " ".join(words).format(ask)],
        stdin=end,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # where the shell says that a job is done
        text=True,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as shell:
        os.close(end)
        os.write(terminal, b"hello\n")
        output = shell.communicate(timeout=600)[0]
    os.close(terminal)
    assert output == f"[group0.0] got {answer}".rstrip() + "\n"


def test_check_shows_and_starts_nothing(passes):
    groups = [1, "--name", "a", "touch", "x"], [2, "--mpi", "--name", "b", "true"]
    path = {"PATH": f"{MACPRUN.parent}:{os.environ['PATH']}"}  # Slurm may be installed
    output = passes([str(MACPRUN), "check", *macprun(*groups)[1:]], path)
    assert "a: slot 0, without MPI, on localhost:1" in output
    assert "b: slots 1-2, MPI, on localhost:2" in output
    assert re.search(r"mpiexec .*-n 2 true$", output, re.M)
    assert "ACP_SECRET=(secret)" in output
    assert "touch x" in passes(macprun(*groups, options=["--dry-run"]))


def test_check_shows_what_runs_on_other_hosts(passes):
    group = [1, "--name", "a", "--hosts", "far", "--wdir", "/w", "--env", "A=b c", "prog", "x y"]
    output = passes([str(MACPRUN), "check", *macprun(group)[1:]])
    assert re.search(r"^  .*ssh far sh$", output, re.M)
    there = re.search(r"^    there: cd /w && env (.*) prog 'x y'$", output, re.M)
    assert there
    assert "A='b c'" in there[1]
    assert "ACP_SECRET=(secret)" in there[1]
    assert "ACP_GROUP_RANK=0" in there[1]


def test_check_shows_that_a_launcher_takes_no_secret_to_other_hosts(passes):
    group = [2, "--mpi", "--name", "b", "--hosts", "far", "true"]
    output = passes([str(MACPRUN), "check", *macprun(group)[1:]], {"HOME": "/tmp"})
    assert "ACP_SECRET_FILE=/tmp/.acp_mpi/JOB.secret" in output
    assert "ACP_SECRET=" not in output


def test_check_shows_what_is_no_text_as_a_shell_takes_it(passes):
    group = [1, "--env", "A=b\udcff", "prog", "é\udcff's"]
    output = passes([str(MACPRUN), "check", *macprun(group)[1:]])
    assert r" A=$'b\xff' " in output
    assert output.endswith(r" prog $'\xc3\xa9\xff\'s'" + "\n")


def test_two_hyphens_end_the_options_of_a_group(passes):
    output = passes(macprun([1, "--", "echo", "--", "one"], [1, "--", "echo", "two"]))
    assert sorted(output.splitlines()) == ["[group0.0] -- one", "[group1.0] two"]


def test_ctrl_c_while_macprun_is_loaded_is_no_traceback(start, tmp_path):
    (tmp_path / "argparse.py").write_text("import os\nos.kill(os.getpid(), 2)\n")
    job = start(macprun([1, "true"]), {"PYTHONPATH": str(tmp_path)})
    assert job.wait() == -signal.SIGINT  # a shell makes 130 of it
    assert not job.output


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
    job.wait()


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
        (["--listen", "x", "-n", "1", "true"], "--listen: address 'x': expected HOST:PORT"),
        (["--listen", "", "-n", "1", "true"], "--listen: address ''"),
        (["-n", "1", "--name", "", "true"], "group name '': expected 1 to 255"),
    ],
)
def test_a_wrong_command_line_is_explained(start, words, text):
    job = start([str(MACPRUN), *words])
    assert job.wait() == 2, job.output
    assert job.output.startswith("macprun: ")
    assert text in job.output
