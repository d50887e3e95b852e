"""Programs of mpi4py that are left as they are, with communicators of ours."""

import sys

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}


def ours_is_in_place(*arguments):
    from mpi4py import MPI
    from mpi4py.futures import (
        MPICommExecutor,  # what others import of it is ours, too
        _core,
    )

    assert _core.MPI is MPI
    assert MPICommExecutor
    assert type(MPI.COMM_WORLD) is MPI.Intracomm
    assert issubclass(MPI.Intracomm, MPI.Comm)
    assert hasattr(MPI.Comm, "_original")  # a class derived from mpi4py's
    for made in (MPI.COMM_WORLD.Dup(), MPI.COMM_WORLD.Split()):
        assert type(made) is MPI.Intracomm
        assert MPI.Comm.Get_size(made) == MPI.COMM_WORLD.Get_size()
        made.Free()
        assert made == MPI.COMM_NULL
    assert isinstance(MPI.COMM_NULL, MPI.Comm)
    assert not isinstance(MPI.COMM_NULL, MPI.Intracomm)
    print("ours", *arguments)


def other_classes_stay_mpi4py_s():
    import pickle

    from mpi4py import MPI
    from mpi4py.util import pkl5

    world = pkl5.Intracomm(MPI.COMM_WORLD)
    assert isinstance(world, MPI.Intracomm)
    assert world == MPI.COMM_WORLD
    assert world.allgather(world.rank) == list(range(world.size))
    assert pickle.loads(pickle.dumps(MPI.COMM_WORLD)) is MPI.COMM_WORLD
    assert MPI.COMM_WORLD.Create_cart([MPI.COMM_WORLD.size]).allgather(1)


def the_ranks_of_the_world_are_a_pool():
    from mpi4py import MPI
    from mpi4py.futures import MPICommExecutor

    with MPICommExecutor(MPI.COMM_WORLD) as pool:
        if pool is not None:
            assert list(pool.map(abs, range(-20, 0))) == list(range(20, 0, -1))


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize(
    "function",
    [ours_is_in_place, other_classes_stay_mpi4py_s, the_ranks_of_the_world_are_a_pool],
)
def test_a_program_that_imports_mpi4py_gets_the_module_of_ours(passes, function, ranks):
    passes([*launch.mpiexec(ranks), *launch.program(function)], HOOK)


@pytest.mark.smoke("options0")
@pytest.mark.parametrize("options", [[], ["-m"]])
def test_a_program_is_run_as_it_is(passes, tmp_path, options):
    program = tmp_path / "alone.py"
    program.write_text(
        "import sys\nfrom mpi4py import MPI\nassert __name__ == '__main__'\n"
        "print(hasattr(MPI.Comm, '_original'), MPI.COMM_WORLD.Get_size(), sys.argv[1:])\n"
    )
    name = "alone" if options else str(program)
    output = passes([sys.executable, "-m", "acp_mpi.spawn", *options, name, "--level", "3"])
    assert output == "True 1 ['--level', '3']\n"


def test_the_module_can_be_imported_by_its_own_name(passes):
    code = "from acp_mpi.spawn import MPI; from mpi4py import MPI as again; assert again is MPI"
    passes([sys.executable, "-c", code])
    passes([sys.executable, "-c", code], HOOK)


def test_a_script_that_is_started_by_its_first_line_gets_the_module_of_ours(passes, tmp_path):
    script = tmp_path / "script"
    script.write_text(
        f"#!{sys.executable}\nfrom mpi4py import MPI\nprint(hasattr(MPI.Comm, '_original'))\n"
    )
    script.chmod(0o700)
    assert passes([str(script)], HOOK) == "True\n"
    assert passes([str(script)]) == "False\n"


# Children -----------------------------------------------------------------------------------


def a_child_that_answers():
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    assert parent.Get_remote_size() == parent.bcast(None, 0)
    everybody = parent.Merge(True)
    assert everybody.allreduce(1) == parent.Get_size() + parent.Get_remote_size()
    everybody.Free()
    parent.Disconnect()
    assert parent == MPI.COMM_NULL
    assert MPI.Comm.Get_parent() == MPI.COMM_NULL


def together_and_each_alone():
    from mpi4py import MPI

    for comm in (MPI.COMM_WORLD, MPI.COMM_SELF):
        command, *arguments = launch.program(a_child_that_answers)
        children = comm.Spawn(command, arguments, 2, root=comm.Get_size() - 1)
        assert type(children) is MPI.Intercomm
        assert (children.Get_size(), children.Get_remote_size()) == (comm.Get_size(), 2)
        children.bcast(comm.Get_size(), MPI.PROC_NULL if comm.Get_rank() else MPI.ROOT)
        everybody = children.Merge(False)
        assert everybody.Get_rank() == comm.Get_rank()
        assert everybody.allreduce(1) == comm.Get_size() + 2
        everybody.Free()
        children.Disconnect()
        assert children == MPI.COMM_NULL


@pytest.mark.smoke("2")
@pytest.mark.parametrize("ranks", [0, 1, 2])
def test_processes_are_spawned(passes, ranks):
    command = launch.program(together_and_each_alone)
    passes([*launch.mpiexec(ranks), *command] if ranks else command, HOOK)


def a_copy_that_is_disconnected():
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        command, *arguments = launch.program(a_copy_that_is_disconnected)
        MPI.COMM_SELF.Spawn(command, arguments).Disconnect()
        return
    MPI.Intercomm(parent).Disconnect()
    assert MPI.Comm.Get_parent() == MPI.COMM_NULL
    print("no parent")


def test_a_parent_that_is_disconnected_by_a_copy_is_none(passes):
    assert "no parent" in passes(launch.program(a_copy_that_is_disconnected), HOOK)


def a_child_that_spawns(depth):
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    total = 1
    if int(depth):
        command, *arguments = launch.program(a_child_that_spawns, int(depth) - 1)
        children = MPI.COMM_SELF.Spawn(command, arguments)
        total += children.recv(source=0)
        children.Disconnect()
    if parent != MPI.COMM_NULL:
        parent.send(total, 0)
        parent.Disconnect()
    else:
        print("generations", total)


def test_children_spawn_children(passes):
    assert "generations 3" in passes(launch.program(a_child_that_spawns, 2), HOOK)


def what_the_hints_say(folder):
    from mpi4py import MPI

    info = MPI.Info.Create({"wdir": folder, "env": "COLOUR=two words\nOTHER=$HOME"})
    code = (
        "import os; from mpi4py import MPI; p = MPI.Comm.Get_parent();"
        "p.send((os.getcwd(), os.environ['COLOUR'], os.environ['OTHER']), 0); p.Disconnect()"
    )
    child = MPI.COMM_SELF.Spawn(sys.executable, ["-c", code], info=info)
    assert child.recv(source=0) == (folder, "two words", "$HOME")
    child.Disconnect()


def test_hints_say_where_and_in_which_environment(passes, tmp_path):
    passes(launch.program(what_the_hints_say, tmp_path.resolve()), HOOK)


def one_that_cannot_be_spawned(command, expected):
    from mpi4py import MPI

    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_WORLD.Spawn("sh", ["-c", command])
    assert caught.value.Get_error_class() == MPI.ERR_SPAWN
    assert any(expected in note for note in caught.value.__notes__), caught.value.__notes__


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("exec /no/such/program", "/no/such/program"),
        ("echo alas; exit 3", "alas"),
        ("true", "ended"),
    ],
)
def test_a_spawn_that_fails_says_why_on_all_ranks(passes, command, expected):
    program = launch.program(one_that_cannot_be_spawned, command, expected)
    passes([*launch.mpiexec(2), *program], HOOK)


def one_that_does_not_exist(count):
    from mpi4py import MPI

    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_SELF.Spawn("/no/such/program", ["x"], int(count))
    assert caught.value.Get_error_class() == MPI.ERR_SPAWN
    assert any("/no/such/program" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("count", [1, 2])
def test_a_command_that_does_not_exist_is_named(passes, count):
    passes(launch.program(one_that_does_not_exist, count), HOOK)


def objects_and_work_among_all_that_were_merged():
    """Buffers in pickles, between both groups and among all; all ranks are a pool."""
    import numpy as np
    from mpi4py import MPI
    from mpi4py.futures import MPICommExecutor
    from mpi4py.util import pkl5

    other = MPI.Comm.Get_parent()
    spawned = other != MPI.COMM_NULL
    if not spawned:
        command, *arguments = launch.program(objects_and_work_among_all_that_were_merged)
        other = MPI.COMM_SELF.Spawn(command, arguments, 2)
    merged = other.Merge(spawned)
    between, everybody = pkl5.Intercomm(other), pkl5.Intracomm(merged)
    large = np.arange(100_000.0)
    if spawned:
        between.send((merged.rank, large), 0)
    for child in range(0 if spawned else 2):
        rank, found = between.recv(source=child)
        assert rank == child + 1
        assert np.array_equal(found, large)
    said = between.allgather((spawned, large))
    assert [who for who, _ in said] == ([False] if spawned else [True] * 2)
    for rank, found in enumerate(everybody.allgather(large + merged.rank)):
        assert np.array_equal(found, large + rank)
    assert np.array_equal(everybody.bcast(large if merged.rank == 0 else None), large)
    with MPICommExecutor(merged) as pool:
        if pool is not None:
            assert list(pool.map(abs, range(-20, 0))) == list(range(20, 0, -1))
            print("the pool is done")
    merged.Free()
    other.Disconnect()


def test_merged_communicators_serve_pkl5_and_futures(passes):
    program = launch.program(objects_and_work_among_all_that_were_merged)
    assert "the pool is done" in passes(program, HOOK)


def one_whose_arguments_are_wrong_at_the_root():
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    for wrong in ((None,), ("true", None, -1), (5,)):
        with pytest.raises((TypeError, ValueError) if comm.rank == 0 else MPI.Exception):
            comm.Spawn(*wrong)
    assert comm.allreduce(1) == comm.size


def test_wrong_arguments_at_the_root_are_an_error_on_all_ranks(passes):
    passes([*launch.mpiexec(2), *launch.program(one_whose_arguments_are_wrong_at_the_root)], HOOK)


def ports_and_names():
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    half = world.Split(world.rank % 2)
    if world.rank % 2 == 0:
        port = None
        if half.rank == 0:
            port = MPI.Open_port()
            MPI.Publish_name("even", port)
        world.barrier()
        other = half.Accept(port)
    else:
        world.barrier()
        port = MPI.Lookup_name("even") if half.rank == 0 else None
        other = half.Connect(port)
    assert other.allgather(world.rank) == list(range(1 - world.rank % 2, world.size, 2))
    other.Disconnect()
    with pytest.raises(MPI.Exception) as caught:
        MPI.Lookup_name("nobody")
    assert caught.value.Get_error_class() == MPI.ERR_NAME


@pytest.mark.parametrize("road", ["any", "link"])
def test_groups_meet_at_ports_that_have_names(passes, road):
    passes([*launch.mpiexec(3), *launch.program(ports_and_names)], HOOK | launch.ROADS[road])


def what_mpi_alone_can_do():
    from mpi4py import MPI

    command, *arguments = launch.program(a_child_that_answers)
    children = MPI.COMM_SELF.Spawn(command, arguments)
    children.bcast(1, MPI.ROOT)
    merged = children.Merge(False)
    for refused in (
        lambda: merged.Create_cart([2]),
        lambda: merged.handle,
        lambda: merged.Psend_init(bytearray(8), 1, 0),
        lambda: MPI.Win.Create(bytearray(8), comm=merged),
        lambda: MPI.Win.Allocate(8, comm=merged),
        lambda: MPI.Win.Allocate_shared(8, comm=merged),
        lambda: MPI.Win.Create_dynamic(comm=merged),
        lambda: MPI.File.Open(merged, "nothing"),
    ):
        with pytest.raises(NotImplementedError, match=r"several groups.*docs/spawn.md"):
            refused()
    window = MPI.Win.Allocate(8, comm=MPI.COMM_WORLD)
    assert type(window) is MPI.Win
    window.Free()
    merged.allreduce(1)
    merged.Free()
    children.Disconnect()


def test_what_is_not_possible_says_so(passes):
    passes(launch.program(what_mpi_alone_can_do), HOOK)


def begin_before_mpi4py_is_imported():
    import acp_mpi as acp

    acp.init()
    from mpi4py import MPI

    command, *arguments = launch.program(a_child_that_answers)
    acp.finalize()  # the communicators below need the job until MPI ends
    children = MPI.COMM_WORLD.Spawn(command, arguments)
    children.bcast(MPI.COMM_WORLD.Get_size(), MPI.PROC_NULL if MPI.COMM_WORLD.rank else MPI.ROOT)
    everybody = children.Merge(False)
    assert everybody.allreduce(1) == MPI.COMM_WORLD.Get_size() + 1
    everybody.Free()
    children.Disconnect()


@pytest.mark.parametrize("ranks", [0, 2])
def test_a_program_may_begin_with_acp_mpi_itself(passes, ranks):
    command = launch.program(begin_before_mpi4py_is_imported)
    passes([*launch.mpiexec(ranks), *command] if ranks else command, HOOK)
