"""Programs of mpi4py that are left as they are, with communicators of ours."""

import os
import subprocess
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


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("function", [ours_is_in_place, other_classes_stay_mpi4py_s])
def test_a_program_that_imports_mpi4py_gets_the_module_of_ours(passes, function, ranks):
    passes([*launch.mpiexec(ranks), *launch.program(function)], HOOK)


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


def test_python_loads_nothing_of_ours_without_the_variable():
    code = "import sys; print([name for name in sys.modules if 'acp' in name])"
    env = {name: value for name, value in os.environ.items() if name != "ACP_SPAWN"}
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, env=env).stdout == "[]\n"
