"""Code in C and Cython that is built on mpi4py's headers, in programs whose MPI is ours."""

import os
import subprocess
import sys
import sysconfig
from array import array
from pathlib import Path

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}
# By mpi4py's header for C: its types, and its functions that make objects and ask for handles.
BY_HEADER = """\
from cpython.object cimport PyTypeObject
from mpi4py.libmpi cimport *

cdef extern from "mpi4py/mpi4py.h":
    int import_mpi4py() except -1
    PyTypeObject PyMPIComm_Type, PyMPIIntracomm_Type, PyMPIIntercomm_Type
    object PyMPIComm_New(MPI_Comm)
    MPI_Comm *PyMPIComm_Get(object) except NULL
    object PyMPIGroup_New(MPI_Group)
    MPI_Group *PyMPIGroup_Get(object) except NULL
    object PyMPIRequest_New(MPI_Request)
    MPI_Request *PyMPIRequest_Get(object) except NULL

cdef extern from "Python.h":
    bint PyObject_TypeCheck(object, PyTypeObject *)

import_mpi4py()

def known(thing):
    return (bool(PyObject_TypeCheck(thing, &PyMPIComm_Type)),
            bool(PyObject_TypeCheck(thing, &PyMPIIntracomm_Type)),
            bool(PyObject_TypeCheck(thing, &PyMPIIntercomm_Type)))

def duplicate(comm):
    cdef MPI_Comm made = MPI_COMM_NULL
    MPI_Comm_dup(PyMPIComm_Get(comm)[0], &made)
    return PyMPIComm_New(made)

def predefined():
    return PyMPIComm_New(MPI_COMM_WORLD), PyMPIComm_New(MPI_COMM_SELF), PyMPIComm_New(MPI_COMM_NULL)

def group(comm):
    cdef MPI_Group made = MPI_GROUP_NULL
    MPI_Comm_group(PyMPIComm_Get(comm)[0], &made)
    return PyMPIGroup_New(made)

def size(group):
    cdef int number = -1
    MPI_Group_size(PyMPIGroup_Get(group)[0], &number)
    return number

def send(comm, int dest, int value):
    # to a receive that is there
    cdef MPI_Request made = MPI_REQUEST_NULL
    MPI_Isend(&value, 1, MPI_INT, dest, 7, PyMPIComm_Get(comm)[0], &made)
    return PyMPIRequest_New(made)

def is_active(request):
    return PyMPIRequest_Get(request)[0] != MPI_REQUEST_NULL
"""
# By mpi4py's definitions for Cython.
BY_TYPE = """\
from mpi4py cimport MPI
from mpi4py.libmpi cimport *

def rank(MPI.Comm comm):
    cdef int number = -1
    MPI_Comm_rank(comm.ob_mpi, &number)
    return number

def size(MPI.Intracomm comm not None, MPI.Group group=None):
    cdef int number = -1
    MPI_Comm_size(comm.ob_mpi, &number)
    return number
"""
WORKER = """\
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Comm parents, all;
    int rank, sum, one = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parents);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rank = 10 * rank + argc;
    MPI_Send(&rank, 1, MPI_INT, 0, 3, parents);
    MPI_Intercomm_merge(parents, 1, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&parents);
    return MPI_Finalize();
}
"""


def _compiled(folder, *words):
    """Compile with this environment's MPI."""
    command = [str(Path(sys.executable).with_name("mpicc")), "-O0", "-w", *words]
    if not Path(command[0]).exists():
        pytest.skip("this environment has no mpicc")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def extensions(tmp_path_factory):
    """Return the folder of modules that the compiler of this environment's MPI has made."""
    pytest.importorskip("Cython")
    import mpi4py

    folder = tmp_path_factory.mktemp("extensions")
    for name, text in (("by_header", BY_HEADER), ("by_type", BY_TYPE)):
        (folder / f"{name}.pyx").write_text(text)
        command = [sys.executable, "-m", "cython", "-3", f"{name}.pyx"]
        subprocess.run(command, cwd=folder, check=True)
        includes = [sysconfig.get_path("include"), mpi4py.get_include()]
        options = ["-shared", "-fPIC", *(f"-I{path}" for path in includes)]
        _compiled(folder, *options, f"{name}.c", "-o", f"{name}.so")
    return folder


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    """Return a program in C that knows MPI, and nothing of acp_mpi."""
    folder = tmp_path_factory.mktemp("worker")
    (folder / "worker.c").write_text(WORKER)
    _compiled(folder, "worker.c", "-o", "worker")
    return folder / "worker"


def give_communicators_to_native_code(folder):
    sys.path.insert(0, folder)
    import by_header
    import by_type
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        parent.Merge(True).Free()
        parent.Disconnect()
        return
    world, null = MPI.COMM_WORLD, MPI.COMM_NULL
    # What native code makes is what programs know, and native code itself.
    made = by_header.duplicate(world)
    assert type(made) is MPI.Intracomm
    assert made.allreduce(1) == world.size
    grid = by_header.duplicate(world.Create_cart([world.size]))
    assert type(grid) is MPI.Cartcomm
    assert type(grid.Sub([True])) is MPI.Cartcomm
    for comm in (world, MPI.COMM_SELF, made, grid, *by_header.predefined()[:2]):
        assert by_header.known(comm) == (True, True, False)
        assert by_type.rank(comm) == comm.rank
        assert by_type.size(comm) == comm.size
    assert by_header.predefined() == (world, MPI.COMM_SELF, null)
    with pytest.raises(TypeError):
        by_type.size(null)
    group = by_header.group(made)
    assert type(group) is MPI.Group
    assert by_header.size(group) == group.size == by_type.size(made, group)
    received = bytearray(4)
    receive = world.Irecv(received, world.rank, 7)
    sent = by_header.send(world, world.rank, 3)
    assert type(sent) is MPI.Request
    MPI.Request.Waitall([sent, receive])
    assert received[0] == 3
    assert not by_header.is_active(sent)
    half = world.Split(world.rank)
    between = half.Create_intercomm(0, world, 1 - world.rank)
    assert by_header.known(between) == (True, False, True)
    made.Free()
    # MPI knows nothing of those of several groups: no handle, not even that of nobody.
    command, *arguments = launch.program(give_communicators_to_native_code, folder)
    children = world.Spawn(command, arguments)
    merged = children.Merge(False)
    for ours in (children, merged):
        assert by_header.known(ours)[0]
        with pytest.raises(NotImplementedError, match=r"PyMPIComm_Get: .*docs/spawn.md"):
            by_header.duplicate(ours)
    with pytest.raises(NotImplementedError, match="PyMPIGroup_Get"):
        by_header.size(merged.Get_group())
    waiting = merged.Irecv(bytearray(1))
    with pytest.raises(NotImplementedError, match="PyMPIRequest_Get"):
        by_header.is_active(waiting)
    waiting.Cancel()
    waiting.Wait()
    merged.Free()
    children.Disconnect()
    assert by_header.predefined()[2] == children
    print("native code knows all", flush=True)


def test_native_code_makes_and_is_given_communicators_of_ours(passes, extensions):
    command = launch.program(give_communicators_to_native_code, extensions)
    output = passes([*launch.mpiexec(2), *command], HOOK)
    assert output.count("native code knows all") == 2


# Programs that only know MPI ------------------------------------------------------------------


def spawn_what_only_knows_mpi(worker):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    info = MPI.Info.Create({"acp_mpi": "off"})
    by_key = ["sh", ["-c", f"exec {worker} one"], 2, info]
    for how, arguments in ((comm.Spawn, [worker, ["one"], 2]), (comm.Spawn, by_key),
                           (comm.Spawn_multiple, [[worker] * 2, [["one"]] * 2])):  # fmt: skip
        errcodes = []
        children = how(*arguments, errcodes=errcodes)
        assert type(children) is MPI.Intercomm
        assert children.Get_remote_size() == 2
        if comm.rank == 0:
            assert [_number_of(children, child) for child in range(2)] == [2, 12]
        _count(children)
    print("all are there", flush=True)


def _count(children):
    merged = children.Merge(False)
    one, total = array("i", [1]), array("i", [0])
    merged.Allreduce(one, total)
    assert total[0] == children.Get_size() + children.Get_remote_size()
    merged.Free()
    children.Disconnect()


def _number_of(children, child):
    number = array("i", [0])
    children.Recv(number, child, 3)
    return number[0]


def test_mpi_itself_spawns_a_program_in_c(passes, worker):
    command = launch.program(spawn_what_only_knows_mpi, worker)
    output = passes([*launch.mpiexec(2), *command], HOOK)
    assert output.count("all are there") == 2


class Seen(list):
    """Arguments that note, whenever they are read, what of the environment a launcher has set."""

    def __init__(self, *words):
        super().__init__(words)
        self.environments = []

    def __iter__(self):
        self.environments.append(of_launcher())
        return super().__iter__()


def of_launcher():
    names = ("PMI_RANK", "PMI_FD", "PMIX_RANK", "PMIX_NAMESPACE")
    return {name: os.environ[name] for name in names if name in os.environ}


def spawn_and_look_at_the_environment(worker):
    given = of_launcher()
    from mpi4py import MPI

    assert given
    assert not of_launcher()
    arguments = Seen("one")
    children = MPI.COMM_SELF.Spawn(worker, arguments)
    assert _number_of(children, 0) == 2
    _count(children)
    assert arguments.environments[-1] == given
    assert not of_launcher()
    print("given back and taken", flush=True)


def test_mpi_gets_its_environment_back_for_its_own_spawn(passes, worker):
    command = launch.program(spawn_and_look_at_the_environment, worker)
    output = passes([*launch.mpiexec(1), *command], HOOK)
    assert output.count("given back and taken") == 1


def spawn_without_a_launcher(worker):
    """MPICH and Open MPI 4 can, Open MPI 5 cannot."""
    from mpi4py import MPI

    try:
        children = MPI.COMM_SELF.Spawn(worker, ["one"])
    except MPI.Exception as refusal:
        said = refusal.__notes__
    else:
        assert _number_of(children, 0) == 2
        _count(children)
        return
    assert "started by mpiexec" in said[0]


def test_without_a_launcher_mpi_spawns_or_says_what_it_needs(passes, worker):
    passes(launch.program(spawn_without_a_launcher, worker), HOOK)


def refused(start, *expected):
    from mpi4py import MPI

    with pytest.raises((MPI.Exception, ValueError)) as caught:
        start()
    said = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    for words in expected:
        assert words in said


def spawn_where_mpi_cannot(worker):
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        if "Open MPI" in MPI.Get_library_version():
            spawn = MPI.COMM_SELF.Spawn
            refused(lambda: spawn(worker), "a Python with acp_mpi", "OMPI_MCA_btl=self,sm,tcp")
        merged = parent.Merge(True)
    else:
        children = MPI.COMM_SELF.Spawn(*_split(launch.program(spawn_where_mpi_cannot, worker)))
        merged = children.Merge(False)
    refused(lambda: merged.Spawn(worker), "must be a Python with acp_mpi", "COMM_WORLD")
    merged.Free()
    if parent != MPI.COMM_NULL:
        return
    both = [worker, sys.executable]
    refused(lambda: MPI.COMM_SELF.Spawn_multiple(both), "by two calls")
    info = MPI.Info.Create({"acp_mpi": "no"})
    refused(lambda: MPI.COMM_SELF.Spawn(worker, info=info), "acp_mpi='no'", "on or off")
    # It is not known what a shell becomes.
    script = ["-c", f"{worker} & exit 0"]
    refused(lambda: MPI.COMM_SELF.Spawn("sh", script), "must be a Python with acp_mpi", "=off")
    print("all refused", flush=True)


def _split(command):
    return command[0], command[1:]


def test_where_mpi_cannot_spawn_a_program_in_c_the_error_says_what_a_child_must_be(passes, worker):
    assert "all refused" in passes(launch.program(spawn_where_mpi_cannot, worker), HOOK)
