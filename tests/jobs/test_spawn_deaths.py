"""Parents and children that die: who waits for them hears of it, and nothing stays behind."""

import os
import signal
import sys
from pathlib import Path

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


# What can be under way when the other side dies; each gets the communicator with it, the merged
# one, and the rank in that of who dies. All that a survivor calls ends with PeerLostError.

WAITS = {
    "recv": lambda comm, merged, dead: comm.recv(source=0),
    "irecv": lambda comm, merged, dead: comm.irecv(source=0).wait(),
    "probe": lambda comm, merged, dead: comm.probe(source=0),
    "ssend": lambda comm, merged, dead: comm.ssend("anything", 0),
    "barrier": lambda comm, merged, dead: comm.barrier(),
    "allreduce": lambda comm, merged, dead: merged.allreduce(1),
    "bcast": lambda comm, merged, dead: merged.bcast(None, dead),
    "ibarrier": lambda comm, merged, dead: merged.Ibarrier().Wait(),
    "disconnect": lambda comm, merged, dead: comm.Disconnect(),
}


def _survive(peer, what, comm, merged, dead, folder):
    import acp_mpi as acp

    lost = pytest.raises(acp.PeerLostError)  # loaded by now: what follows is the wait itself
    peer.send("I wait", 0)
    with lost:
        WAITS[what](comm, merged, dead)
    Path(folder, f"{os.getpid()} heard").touch()
    os._exit(0)  # Disconnect would raise once more: there is nobody


def one_dies(who, what, folder):
    from mpi4py import MPI

    peer = MPI.Comm.Get_parent()
    is_child = peer != MPI.COMM_NULL
    if not is_child:
        command, *arguments = launch.program(one_dies, who, what, folder)
        peer = MPI.COMM_SELF.Spawn(command, arguments)
    merged = peer.Merge(is_child)
    dead = int(who == "child")
    if is_child != (who == "child"):
        _survive(peer, what, peer, merged, dead, folder)
    peer.recv(source=0)
    die()


@pytest.mark.parametrize("what", WAITS)
@pytest.mark.parametrize("who", ["parent", "child"])
def test_who_waits_for_the_dead_hears_of_it(start, tmp_path, who, what):
    job = start(launch.program(one_dies, who, what, tmp_path), HOOK)
    assert job.wait() == (-signal.SIGKILL if who == "parent" else 0), job.output
    launch.until(lambda: list(tmp_path.glob("* heard")))
    launch.until(lambda: not job.processes())


def parents_die_together(folder):
    """Two children wait in a collective with parents that are killed with their launcher."""
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        command, *arguments = launch.program(parents_die_together, folder)
        children = MPI.COMM_WORLD.Spawn(command, arguments, 2)
        children.barrier()
        if MPI.COMM_WORLD.Get_rank() == 0:
            for rank in range(2):
                children.recv(source=rank)
            die()
        children.recv(source=0)  # its launcher ends it, or it hears of the death
    parent.barrier()
    merged = parent.Dup()
    _survive(parent, "barrier", merged, merged, 0, folder)


def test_children_hear_when_a_group_of_parents_dies(start, tmp_path):
    job = start([*launch.mpiexec(2), *launch.program(parents_die_together, tmp_path)], HOOK)
    assert job.wait() != 0, job.output
    # The other one waits for this one: it hears of its end, unless their launcher ends it before.
    launch.until(lambda: list(tmp_path.glob("* heard")))
    launch.until(lambda: not job.processes())


def children_that_nobody_tells_anything(folder):
    """They compute, and end when they next need a parent that has died."""
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        command, *arguments = launch.program(children_that_nobody_tells_anything, folder)
        MPI.COMM_SELF.Spawn(command, arguments, 2)
        die()
    launch.until(lambda: os.path.exists(f"{folder}/go on"))
    parent.send("late", 0)


def test_children_without_a_parent_end_by_the_usual_rule(start, tmp_path):
    job = start(launch.program(children_that_nobody_tells_anything, tmp_path), HOOK)
    assert job.wait() == -signal.SIGKILL, job.output
    assert job.processes()  # they live on
    (tmp_path / "go on").touch()
    launch.until(lambda: not job.processes())
    assert "PeerLostError" in job.output


def one_of_three_children_dies(folder):
    """Another group of children goes on with its parent."""
    from mpi4py import MPI

    import acp_mpi as acp

    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        if parent.recv(source=0) == "die":
            die()
        parent.send("alive", 0)
        parent.Disconnect()
        return
    command, *arguments = launch.program(one_of_three_children_dies, folder)
    groups = [MPI.COMM_SELF.Spawn(command, arguments) for _ in range(3)]
    groups[1].send("die", 0)
    with pytest.raises(acp.PeerLostError):
        groups[1].recv(source=0)
    for group in (groups[0], groups[2]):
        group.send("live", 0)
        assert group.recv(source=0) == "alive"
        group.Disconnect()
    later = MPI.COMM_SELF.Spawn(command, arguments)  # and new ones can be had
    later.send("live", 0)
    assert later.recv(source=0) == "alive"
    later.Disconnect()
    Path(folder, "went on").touch()
    os._exit(0)


def anybody_of_two_groups(folder):
    """One waits for anybody of a communicator; a death is its business only if it is inside."""
    from mpi4py import MPI

    import acp_mpi as acp

    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        merged = parent.Merge(True)
        while (comm := {"a": parent, "b": merged}.get(parent.recv(source=0))) is not None:
            comm.send("alive", 0)
        die()
    command, *arguments = launch.program(anybody_of_two_groups, folder)
    inside, outside = (MPI.COMM_SELF.Spawn(command, arguments, 2) for _ in range(2))
    merged, other = inside.Merge(False), outside.Merge(False)
    dead = acp.ranks()[1:3]  # those inside: their launcher may end both
    inside_waits, merged_waits = inside.irecv(tag=0), merged.irecv(tag=0)
    outside.send("die", 0)
    for comm, source in ((outside, 0), (other, 1)):
        with pytest.raises(acp.PeerLostError):
            comm.recv(source=source)
    for comm in (inside, merged):
        assert not comm.iprobe()
    assert not inside_waits.Test()
    assert not merged_waits.Test()
    inside.send("a", 1)
    assert inside_waits.wait() == "alive"
    inside.send("b", 0)
    assert merged_waits.wait() == "alive"
    inside.send("b", 1)
    merged.probe()
    assert merged.recv() == "alive"
    waits = merged.irecv()
    inside.send("die", 1)
    for wait in (waits.wait, merged.recv, inside.probe, inside.recv, merged.probe):
        with pytest.raises(acp.PeerLostError) as caught:
            wait()
        assert caught.value.rank in dead
    with pytest.raises(acp.PeerLostError):
        inside.iprobe()
    Path(folder, "went on").touch()
    os._exit(0)


@pytest.mark.parametrize("program", [one_of_three_children_dies, anybody_of_two_groups])
def test_a_parent_goes_on_without_children_that_have_died(start, tmp_path, program):
    job = start(launch.program(program, tmp_path), HOOK)
    assert job.wait() == 0, job.output
    assert (tmp_path / "went on").exists()
    launch.until(lambda: not job.processes())


def spawn_what_never_calls_mpi():
    from mpi4py import MPI

    from acp_mpi.job import membership

    python = f"exec {sys.executable} -c 'import time; time.sleep(100)'"
    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_WORLD.Spawn_multiple(["sh", "sh"], [["-c", "sleep 100"], ["-c", python]], [2, 2])
    assert caught.value.Get_error_class() == MPI.ERR_SPAWN
    assert "ACP_JOIN_TIMEOUT" in "".join(caught.value.__notes__)
    membership.job().place.timeout = 60.0
    command, *arguments = launch.program(say_hello)  # the next one is as if nothing had been
    child = MPI.COMM_WORLD.Spawn(command, arguments)
    assert child.allgather(None) == ["hello"]
    child.Disconnect()


def say_hello():
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    parent.allgather("hello")
    parent.Disconnect()


@pytest.mark.parametrize("ranks", [0, 2])
def test_children_that_never_call_mpi_are_ended_in_time(start, ranks):
    command = launch.program(spawn_what_never_calls_mpi)
    job = start(
        [*launch.mpiexec(ranks), *command] if ranks else command,
        HOOK | {"ACP_JOIN_TIMEOUT": "3"},
    )
    assert job.wait(60.0) == 0, job.output
    launch.until(lambda: not job.processes())


def spawn_one_that_dies_at_once(number):
    from mpi4py import MPI

    code = f"import os; from mpi4py.rc import *; os.kill(os.getpid(), {number})"
    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_WORLD.Spawn(sys.executable, ["-c", code])
    assert caught.value.Get_error_class() == MPI.ERR_SPAWN
    assert "ended before it had joined" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_child_that_dies_before_it_calls_mpi_is_an_error(start, number):
    job = start(launch.program(spawn_one_that_dies_at_once, int(number)), HOOK)
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())


def wait_and_be_interrupted(folder):
    from mpi4py import MPI

    command, *arguments = launch.program(never_answer)
    child = MPI.COMM_SELF.Spawn(command, arguments)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        Path(folder, "waits").touch()  # the signal may come before the wait
        child.recv(source=0)
    child.send("end", 0)
    child.Disconnect()


def never_answer():
    from mpi4py import MPI

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = MPI.Comm.Get_parent()
    assert parent.recv(source=0) == "end"
    parent.Disconnect()


def test_ctrl_c_ends_a_wait_for_a_child(start, tmp_path):
    job = start(launch.program(wait_and_be_interrupted, tmp_path), HOOK)
    launch.until((tmp_path / "waits").exists, job)
    os.kill(job.pid, signal.SIGINT)
    assert job.wait() == 0, job.output


# Who waits for several, or only asks -----------------------------------------------------------


def a_parent_whose_child_dies():
    from mpi4py import MPI

    import acp_mpi as acp

    code = "from mpi4py import MPI; p = MPI.Comm.Get_parent(); import os; os.kill(os.getpid(), 9)"
    child = MPI.COMM_SELF.Spawn(sys.executable, ["-c", code])
    with pytest.raises(acp.PeerLostError):
        child.recv(source=0)
    print("noticed")
    sys.stdout.flush()
    os._exit(0)


@pytest.mark.smoke
def test_a_child_that_dies_is_noticed_by_who_waits_for_it(passes):
    assert "noticed" in passes(launch.program(a_parent_whose_child_dies), HOOK)


def one_of_three_that_dies():
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent.rank:
        parent.send(parent.rank, 0)
    MPI.COMM_WORLD.Barrier()  # their launcher ends those that have not spoken
    if parent.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    parent.recv(source=0)


def a_parent_that_hears_of_all():
    from mpi4py import MPI

    import acp_mpi as acp

    command, *arguments = launch.program(one_of_three_that_dies)
    children = MPI.COMM_SELF.Spawn(command, arguments, 3)
    requests, heard = [children.irecv(source=source) for source in range(3)], []
    while len(heard) < 3:
        try:
            heard.append(MPI.Request.waitany(requests)[1])
        except acp.PeerLostError:
            heard.append("lost")
    assert requests == [MPI.REQUEST_NULL] * 3
    print("heard", sorted(map(str, heard)))
    sys.stdout.flush()
    os._exit(0)


def test_a_child_that_dies_hides_no_other(passes):
    said = passes(launch.program(a_parent_that_hears_of_all), HOOK)
    assert "heard ['1', '2', 'lost']" in said


def poll_until_noticed(comm):
    """Ask without waiting, in all ways: each tells of the death."""
    import acp_mpi as acp

    request = comm.irecv()
    for poll in (
        lambda: comm.Iprobe(source=0),
        comm.iprobe,
        comm.improbe,
        lambda: comm.Improbe(source=0),
        lambda: request.test()[0],
    ):
        with pytest.raises(acp.PeerLostError):
            launch.until(poll)


def one_of_two_that_dies(who, folder):
    from mpi4py import MPI

    peer = MPI.Comm.Get_parent()
    is_child = peer != MPI.COMM_NULL
    if not is_child:
        command, *arguments = launch.program(one_of_two_that_dies, who, folder)
        peer = MPI.COMM_SELF.Spawn(command, arguments)
    if is_child == (who == "child"):
        peer.recv(source=0)
        os.kill(os.getpid(), signal.SIGKILL)
    peer.send("go", 0)
    poll_until_noticed(peer)
    Path(folder, "noticed").touch()
    os._exit(0)


@pytest.mark.parametrize("who", ["parent", "child"])
def test_who_only_polls_notices_a_death(start, tmp_path, who):
    job = start(launch.program(one_of_two_that_dies, who, tmp_path), HOOK)
    assert job.wait() == (-signal.SIGKILL if who == "parent" else 0), job.output
    launch.until((tmp_path / "noticed").exists)
    launch.until(lambda: not job.processes())
