"""Where a program may spawn: in each kind of job, by several at once; and any kind of child."""

import os
import shlex
import sys
import threading
from pathlib import Path

import launch
import pytest

MACPRUN = Path(sys.executable).with_name("macprun")
HOOK = {"ACP_SPAWN": "1"}


def add_up(size):
    """A child: all of both sides add up what they have."""
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    assert MPI.COMM_WORLD.Get_size() == int(size)
    everybody = parent.Merge(True)
    assert everybody.allreduce(1) == everybody.Get_size()
    assert everybody.Get_size() == parent.Get_size() + parent.Get_remote_size()
    everybody.Free()
    parent.Disconnect()


def spawn_and_add_up(comm, size):
    command, *arguments = launch.program(add_up, size)
    children = comm.Spawn(command, arguments, size)
    assert children.Get_remote_size() == size
    everybody = children.Merge(False)
    assert everybody.allreduce(1) == comm.Get_size() + size
    everybody.Free()
    children.Disconnect()


# In a job of several groups ---------------------------------------------------------------------


def spawn_in_a_group(done):
    """All groups with MPI spawn at once, together and each rank alone."""
    from mpi4py import MPI

    import acp_mpi as acp

    group = acp.group()
    assert MPI.COMM_WORLD.Get_size() == group.size < acp.procs()
    spawn_and_add_up(MPI.COMM_WORLD, 2)
    spawn_and_add_up(MPI.COMM_SELF, 1)
    Path(done, f"{group.name} {MPI.COMM_WORLD.Get_rank()}").touch()


def spawn_without_mpi(done):
    """A process without MPI has no communicator; it starts a group that it knows by its ranks."""
    import acp_mpi as acp

    acp.init()
    group = acp.spawn_group(launch.program(answer_to, acp.rank()), 2, mpi=True)
    for rank in group.ranks:
        assert acp.recv(source=rank, tag=5) == ("child", rank)
    acp.finalize()
    Path(done, "alone 0").touch()


def answer_to(rank):
    import acp_mpi as acp

    acp.init()
    assert acp.group().has_mpi
    acp.send(("child", acp.rank()), int(rank), tag=5)
    acp.finalize()


def test_groups_of_a_macprun_job_spawn(start, tmp_path):
    words = [
        *("-n", 2, "--mpi", "--name", "ocean", *launch.program(spawn_in_a_group, tmp_path), ":"),
        *("-n", 1, "--mpi", "--name", "ice", *launch.program(spawn_in_a_group, tmp_path), ":"),
        *("-n", 1, "--name", "alone", *launch.program(spawn_without_mpi, tmp_path)),
    ]
    job = start([str(MACPRUN), *map(str, words)], HOOK)
    assert job.wait(90.0) == 0, job.output
    for name in ("ocean 0", "ocean 1", "ice 0", "alone 0"):
        assert (tmp_path / name).exists(), job.output
    launch.until(lambda: not job.processes())


def meet_a_group_of_macprun(name):
    """Children of one group meet another group at a port that both know by a name."""
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        parent.barrier()
        other = MPI.COMM_WORLD.Connect(MPI.Lookup_name("door"))
        assert other.recv(source=0) == "from the server"
        other.Disconnect()
        parent.Disconnect()
    elif name == "client":
        command, *arguments = launch.program(meet_a_group_of_macprun, "child")
        children = MPI.COMM_WORLD.Spawn(command, arguments)
        _wait_for_the_name()
        children.barrier()
        children.Disconnect()
    else:
        port = MPI.Open_port()
        MPI.Publish_name("door", port)
        clients = MPI.COMM_WORLD.Accept(port)
        clients.send("from the server", 0)
        clients.Disconnect()


def _wait_for_the_name():
    from mpi4py import MPI

    def is_there():
        try:
            return MPI.Lookup_name("door")
        except MPI.Exception:
            return None

    launch.until(is_there)


def test_children_of_one_group_meet_another_group(start):
    words = []
    for name in ("server", "client"):
        words += [":"] * bool(words) + ["-n", "1", "--mpi", "--name", name]
        words += launch.program(meet_a_group_of_macprun, name)
    job = start([str(MACPRUN), *words], HOOK)
    assert job.wait(60.0) == 0, job.output
    launch.until(lambda: not job.processes())


# At once ----------------------------------------------------------------------------------------


def spawn_by_threads():
    from mpi4py import MPI

    failed = []

    def one():
        try:
            spawn_and_add_up(MPI.COMM_SELF, 1)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


@pytest.mark.parametrize("ranks", [0, 2])
def test_threads_spawn_at_once(passes, ranks):
    command = launch.program(spawn_by_threads)
    passes([*launch.mpiexec(ranks), *command] if ranks else command, HOOK, 60.0)


def live_while_others_spawn(depth):
    """Each spawns one more while its parents wait in a collective of theirs with it."""
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    total = 1
    if int(depth):
        command, *arguments = launch.program(live_while_others_spawn, int(depth) - 1)
        children = MPI.COMM_WORLD.Spawn(command, arguments, 2)
        everybody = children.Merge(False)
        total = everybody.allreduce(1 if MPI.COMM_WORLD.Get_rank() == 0 else 0)
        everybody.Free()
        children.Disconnect()
    if parent != MPI.COMM_NULL:
        everybody = parent.Merge(True)
        total = everybody.allreduce(total)
        everybody.Free()
        parent.Disconnect()
    else:
        print("in all", total)


def test_children_of_several_ranks_spawn_together(passes):
    command = [*launch.mpiexec(2), *launch.program(live_while_others_spawn, 1)]
    assert "in all 3" in passes(command, HOOK, 60.0)


# What children are ------------------------------------------------------------------------------


SCRIPT = """\
#!{python}
import sys
from mpi4py import MPI
parent = MPI.Comm.Get_parent()
parent.send((sys.argv[1:], MPI.COMM_WORLD.Get_size()), 0)
parent.Disconnect()
"""


def spawn_scripts(folder):
    from mpi4py import MPI

    arguments = ["one", "two words", "$HOME", "it's"]
    by_place = MPI.COMM_SELF.Spawn(str(Path(folder, "script")), arguments, 2)
    for rank in range(2):
        assert by_place.recv(source=rank) == (arguments, 2)
    by_place.Disconnect()
    info = MPI.Info.Create({"path": folder})
    by_name = MPI.COMM_SELF.Spawn("script", arguments, info=info)
    assert by_name.recv(source=0) == (arguments, 1)
    by_name.Disconnect()
    several = MPI.COMM_SELF.Spawn_multiple(["script", "script"], [["a"], ["b"]], info=info)
    assert [several.recv(source=rank) for rank in range(2)] == [(["a"], 2), (["b"], 2)]
    several.Disconnect()


def test_children_are_scripts_that_are_found_by_their_place_or_in_a_path(passes, tmp_path):
    script = tmp_path / "script"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o700)
    passes(launch.program(spawn_scripts, tmp_path.resolve()), HOOK, 60.0)


def spawn_a_shell(folder):
    """What the shell makes of it is the child: its parent is the shell's."""
    from mpi4py import MPI

    line = f"cd {shlex.quote(folder)} && {shlex.join(launch.program(say_where))}; exit $?"
    child = MPI.COMM_SELF.Spawn("sh", ["-c", line])
    assert child.recv(source=0) == folder
    child.Disconnect()


def say_where():
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    parent.send(os.getcwd(), 0)
    parent.Disconnect()


def test_a_child_may_be_started_by_a_shell_of_its_own(passes, tmp_path):
    passes(launch.program(spawn_a_shell, tmp_path.resolve()), HOOK)


def spawn_and_start_one_without_mpi():
    """Spawned children and a process without MPI that their parent starts are one job."""
    from mpi4py import MPI

    import acp_mpi as acp

    command, *arguments = launch.program(talk_to_one_without_mpi)
    child = MPI.COMM_SELF.Spawn(command, arguments)
    group = acp.spawn_group(launch.program(serve_without_mpi), 1, mpi=False)
    assert not group.has_mpi
    (rank,) = group.ranks
    acp.send("from the parent", rank, tag=1)
    child.send(rank, 0)
    assert acp.recv(source=rank, tag=2) == ["from the child", "from the parent"]
    child.Disconnect()


def talk_to_one_without_mpi():
    from mpi4py import MPI

    import acp_mpi as acp

    parent = MPI.Comm.Get_parent()
    acp.send("from the child", parent.recv(source=0), tag=1)
    parent.Disconnect()


def serve_without_mpi():
    import acp_mpi as acp

    acp.init()
    assert "mpi4py.MPI" not in sys.modules
    said = [acp.recv(tag=1) for _ in range(2)]
    acp.send(sorted(said), 0, tag=2)
    acp.finalize()


def test_a_process_without_mpi_is_of_the_same_job_as_children(passes):
    passes(launch.program(spawn_and_start_one_without_mpi), HOOK)
