"""Spawn as programs use it in all earnest: odd arguments, other jobs, early ends."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}


def say_where():
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    parent.send(os.getcwd(), 0)
    parent.Disconnect()


SCRIPT = """\
#!{python}
import sys
from mpi4py import MPI
parent = MPI.Comm.Get_parent()
{line}
parent.Disconnect()
"""


def script_in(folder, line):
    """Return a program without arguments that runs a line with its `parent`."""
    script = folder / "script"
    script.write_text(SCRIPT.format(python=sys.executable, line=line))
    script.chmod(0o700)
    return script


# Arguments ----------------------------------------------------------------------------------


def one_argument_may_stand_alone(script):
    """As in mpi4py: a string, or bytes, are one argument and no sequence of them."""
    from mpi4py import MPI

    for given in ("two words", b"two words", ["two words"]):
        child = MPI.COMM_SELF.Spawn(script, given)
        assert child.recv(source=0) == ["two words"]
        child.Disconnect()
        children = MPI.COMM_SELF.Spawn_multiple([script] * 2, [given, None])
        assert [children.recv(source=rank) for rank in range(2)] == [["two words"], []]
        children.Disconnect()


def test_one_argument_may_stand_alone(passes, tmp_path):
    script = script_in(tmp_path, "parent.send(sys.argv[1:], 0)")
    passes(launch.program(one_argument_may_stand_alone, script), HOOK, 60.0)


def kinds_of_texts_and_numbers(script, folder):
    """As NumPy has them, and paths; what an Info says, too, and a dict in its place."""
    import numpy as np
    from mpi4py import MPI

    for kind in (np.str_, Path):
        for info in ({"wdir": kind(folder)}, MPI.Info.Create({"wdir": np.str_(folder)})):
            for count in (np.int64(1), np.int64(2)):
                children = MPI.COMM_SELF.Spawn(kind(script), kind("an argument"), count, info)
                for rank in range(count):
                    assert children.recv(source=rank) == ["an argument", os.path.realpath(folder)]
                children.Disconnect()


def test_a_program_is_told_what_texts_and_numbers_say(passes, tmp_path):
    script = script_in(tmp_path, "import os; parent.send([*sys.argv[1:], os.getcwd()], 0)")
    passes(launch.program(kinds_of_texts_and_numbers, script, tmp_path), HOOK, 60.0)


def name_a_host_that_nobody_knows():
    from mpi4py import MPI

    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_SELF.Spawn("true", info={"host": "no-such-host.invalid"})
    assert "host 'no-such-host.invalid' is unknown" in caught.value.__notes__[0]


def test_a_host_that_nobody_knows_is_called_unknown(passes):
    passes(launch.program(name_a_host_that_nobody_knows), HOOK)


def each_program_knows_its_number(script):
    """By the attribute APPNUM, as in MPI: also without a launcher, and of a duplicate."""
    from mpi4py import MPI

    assert MPI.COMM_SELF.Get_attr(MPI.APPNUM) in (0, None)  # of this process, whom nobody spawned
    for counts in ([1], [3], [1, 2, 1]):
        children = MPI.COMM_SELF.Spawn_multiple([script] * len(counts), None, counts)
        numbers = [number for number, count in enumerate(counts) for _ in range(count)]
        for rank, number in enumerate(numbers):
            assert children.recv(source=rank) == [number] * 2
        children.Disconnect()


def test_each_program_knows_its_number(passes, tmp_path):
    numbers = "[comm.Get_attr(MPI.APPNUM) for comm in (MPI.COMM_WORLD, parent)]"
    script = script_in(tmp_path, f"parent.send({numbers}, 0)")
    passes(launch.program(each_program_knows_its_number, script), HOOK, 60.0)


def nothing_to_start():
    from mpi4py import MPI

    for start in (
        lambda: MPI.COMM_SELF.Spawn("true", maxprocs=0),
        lambda: MPI.COMM_SELF.Spawn_multiple([], None, []),
    ):
        with pytest.raises(MPI.Exception) as caught:
            start()
        assert caught.value.Get_error_class() == MPI.ERR_SPAWN
        assert "at least 1" in caught.value.__notes__[0]


def test_nothing_to_start_is_refused(passes):
    passes(launch.program(nothing_to_start), HOOK, 60.0)


def counts_of_numpy_and_a_relative_directory(folder):
    """CDPATH would have a shell go elsewhere."""
    import numpy as np
    from mpi4py import MPI

    os.chdir(folder)
    os.makedirs("sub")
    os.makedirs("elsewhere/sub")
    os.environ["CDPATH"] = os.path.abspath("elsewhere")
    info = MPI.Info.Create({"wdir": "sub"})
    command, *arguments = launch.program(say_where)
    for counts in (np.int64(2), [np.int64(1), np.int32(1)]):
        children = MPI.COMM_SELF.Spawn_multiple(
            [command] * (1 + isinstance(counts, list)),
            [arguments] * (1 + isinstance(counts, list)),
            counts,
            info,
        )
        for rank in range(2):
            assert children.recv(source=rank) == os.path.realpath("sub")
        children.Disconnect()


def test_counts_are_of_any_kind_and_directories_are_found(passes, tmp_path):
    passes(launch.program(counts_of_numpy_and_a_relative_directory, tmp_path.resolve()), HOOK, 60.0)


def test_programs_run_where_they_are_told_to():
    from acp_mpi.spawn.standin.comm.spawning import _places, programs

    from mpi4py import MPI  # isort: skip

    def places(*hosts):
        infos = [MPI.Info.Create({"host": host}) if host else MPI.INFO_NULL for host in hosts]
        counts = [1 + number for number in range(len(hosts))]
        commands = ["true"] * len(hosts)
        return [tuple(node) for node in _places(programs(commands, None, counts, infos))]

    own = socket.gethostname()
    assert places(own, "localhost") == [(own, 1), ("localhost", 2)]
    assert places(own, own, "") == [(own, 3), ("localhost", 3)]
    with pytest.raises(ValueError, match="side by side"):
        places(own, "", own)


# What goes wrong at the root is told to all ---------------------------------------------------


def nobody_is_left_behind():
    from mpi4py import MPI

    import acp_mpi as acp

    comm = MPI.COMM_WORLD
    root = comm.Get_rank() == 0
    command, *arguments = launch.program(say_where)
    with pytest.raises(TypeError if root else MPI.Exception):
        comm.Spawn(command, arguments, info=5 if root else MPI.INFO_NULL)
    with pytest.raises(TypeError if root else MPI.Exception):
        comm.Accept(5 if root else "")
    for call in (comm.Accept, comm.Connect):
        with pytest.raises(MPI.Exception) as caught:
            call("no port" if root else "")
        assert caught.value.Get_error_class() == MPI.ERR_PORT
        assert "'no port' is not a port" in caught.value.__notes__[0]
    port = comm.bcast(MPI.Open_port() if root else None)
    begin, job, owner, number, sign = port.split(":")
    for wrong in ((begin, job, "99", number, sign), (begin, job, owner, number, "1"),
                  (begin, job, owner, "99", sign)):  # fmt: skip
        with pytest.raises((acp.Error, MPI.Exception)):
            comm.Connect(":".join(wrong))
    comm.barrier()


def test_all_hear_what_goes_wrong_at_the_root(passes):
    passes([*launch.mpiexec(2), *launch.program(nobody_is_left_behind)], HOOK)


def descriptors_run_out():
    """Where not even the helper of Spawn can be started."""
    import resource

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    command, *arguments = launch.program(say_where)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused = pytest.raises(MPI.Exception)
    _hear_of_one(comm, command, arguments)  # all that it needs of Python is loaded
    if comm.Get_rank() == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    with refused as caught:
        comm.Spawn(command, arguments)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert caught.value.Get_error_class() == MPI.ERR_SPAWN
    _hear_of_one(comm, command, arguments)


def _hear_of_one(comm, command, arguments):
    child = comm.Spawn(command, arguments)
    if comm.Get_rank() == 0:
        assert child.recv(source=0) == os.getcwd()
    child.Disconnect()


def test_all_hear_that_the_root_has_no_descriptors_left(passes):
    passes([*launch.mpiexec(2), *launch.program(descriptors_run_out)], HOOK)


# Other jobs, and none ---------------------------------------------------------------------------


def join_by(descriptor):
    from mpi4py import MPI

    with pytest.raises(MPI.Exception) as caught:
        MPI.Comm.Join(int(descriptor))
    assert "another job" in caught.value.__notes__[0]


def test_a_process_of_another_job_is_not_joined():
    ends = socket.socketpair()
    both = [
        subprocess.Popen(
            launch.program(join_by, end.fileno()), env=os.environ | HOOK, pass_fds=[end.fileno()]
        )
        for end in ends
    ]
    for end in ends:
        end.close()
    assert [each.wait(600) for each in both] == [0, 0]


def ask_without_a_launcher():
    """MPICH would look for a launcher of its own and, if there is none, never come back."""
    from mpi4py import MPI

    command, *arguments = launch.program(say_where)
    child = MPI.COMM_SELF.Spawn(command, arguments)
    assert child.recv(source=0) == os.getcwd()
    os.environ["PATH"] = ""
    for comm in (child, MPI.COMM_SELF) * 2:
        assert comm.Get_attr(MPI.UNIVERSE_SIZE) is None
    child.Disconnect()


def test_nobody_is_asked_for_the_size_of_the_universe(passes):
    passes(launch.program(ask_without_a_launcher), HOOK)


# What a child does ------------------------------------------------------------------------------

INNER = "from mpi4py import MPI; print(MPI.COMM_WORLD.size, MPI.Comm.Get_parent() == MPI.COMM_NULL)"


def start_programs_of_its_own():
    """They are jobs of their own, whether they are started by hand or by multiprocessing."""
    import multiprocessing

    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        command, *arguments = launch.program(start_programs_of_its_own)
        child = MPI.COMM_SELF.Spawn(command, arguments)
        assert child.recv(source=0) == ("1 True\n", [1, 2])
        child.Disconnect()
        return
    said = subprocess.check_output([sys.executable, "-c", INNER], text=True)
    spawn = multiprocessing.get_context("spawn")
    reader, writer = spawn.Pipe(False)  # a pool has semaphores, which stay where it is killed
    process = spawn.Process(target=writer.send, args=([1, 2],))
    process.start()
    assert reader.poll(600)
    parent.send((said, reader.recv()), 0)
    process.join()
    parent.Disconnect()


def test_what_a_child_starts_is_no_member_of_the_job(passes):
    passes(launch.program(start_programs_of_its_own), HOOK, 60.0)


def handle_a_signal_again():
    import acp_mpi as acp

    with acp.init():
        script = "trap 'echo got' USR1; kill -USR1 $$"
        assert subprocess.check_output(["sh", "-c", script], text=True) == "got\n"
        os.kill(os.getpid(), signal.SIGUSR1)  # what MPICH's launcher does when a rank has died
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.check_call(["sh", "-c", "kill -USR1 $$"])


def test_what_a_program_starts_can_be_sent_any_signal(passes):
    passes([*launch.mpiexec(1), *launch.program(handle_a_signal_again)])


def spawn_what_ends_early():
    """It has joined, so it was spawned; that it has gone is heard by whoever needs it."""
    from mpi4py import MPI

    import acp_mpi as acp

    for last in ("pass", "import os; os._exit(3)"):
        for count in (1, 3):
            code = f"from mpi4py import MPI; {last}"
            children = MPI.COMM_SELF.Spawn(sys.executable, ["-c", code], count)
            assert children.Get_remote_size() == count
            with pytest.raises(acp.PeerLostError):
                children.recv(source=count - 1)
            acp.refresh()


def test_what_ends_early_was_spawned(start):
    job = start(launch.program(spawn_what_ends_early), HOOK)
    assert job.wait(90.0) == 0, job.output
    launch.until(lambda: not job.processes())
