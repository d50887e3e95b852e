"""Programs and extension modules in C, through `acp.h`."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import launch
import pytest

import acp_mpi as acp

PROGRAM = launch.ROOT / "examples" / "in_c"
CALLS = launch.TESTS / "jobs" / "calls.c"
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]


def compile_c(source: Path, target: Path, *more: str) -> Path:
    """Compile a C file against the installed header, and Python's."""
    includes = [f"-I{acp.get_include()}", f"-I{sysconfig.get_path('include')}"]
    command = [*os.environ.get("CC", "gcc").split(), *FLAGS, *includes, str(source), "-o"]
    subprocess.run([*command, str(target), *more], check=True)
    return target


def compile_program(source: Path, target: Path) -> Path:
    """Compile a program that starts the interpreter of these tests."""
    name = f"python{sysconfig.get_config_var('LDVERSION')}"
    folders = [sysconfig.get_config_var(each) for each in ("LIBDIR", "LIBPL")]
    folder = next((each for each in folders if any(Path(each).glob(f"lib{name}.*"))), None)
    if folder is None:
        pytest.skip("this Python has no libpython that a program in C could link")
    linked = [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l{name}", "-lm", "-ldl"]
    return compile_c(source, target, *linked, "-Wl,-export-dynamic")


@pytest.mark.smoke
def test_a_program_in_c_and_one_in_python_share_memory(passes, tmp_path):
    compile_program(PROGRAM / "workers.c", tmp_path / "workers")
    for name in ("master.py", "job.toml"):
        (tmp_path / name).symlink_to(PROGRAM / name)
    folder = Path(sys.executable).parent
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    command = f"cd {tmp_path} && {folder / 'macprun'} job.toml"
    output = passes(["sh", "-c", command], {"PATH": path})
    assert "pi is 3.14159265, by 200 pieces in C" in output
    assert output.count(" pieces\n") == 3, output


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Compile an extension module; returns the variables that let ranks import it."""
    folder = tmp_path_factory.mktemp("calls")
    compile_c(CALLS, folder / "calls.so", "-shared", "-fPIC")
    return {"PYTHONPATH": str(folder)}


def use_the_calls():
    import os
    import signal
    import threading

    import calls
    import numpy as np

    import acp_mpi as acp

    with pytest.raises(RuntimeError, match="closed"):
        calls.sync()
    with acp.init():
        array = acp.zeros(1000)
        array[:] = np.arange(1000)
        addresses = acp.allgather(acp.query_ga(array))
        other = (acp.rank() + 1) % acp.procs()
        assert calls.total(addresses[other], 1000) == 999 * 500
        with pytest.raises(RuntimeError, match="not registered"):
            calls.total(addresses[other], 1001)
        assert calls.all(other) == ""
        calls.sync()

        # A wait in C ends by another rank's write, and by what a signal handler raises.
        start = acp.query_starter_ga
        acp.put(start(other), np.uint64(12345))
        calls.wait(start(acp.rank()))
        calls.sync()
        acp.put(start(acp.rank()), np.uint64(0))
        signal.signal(signal.SIGUSR1, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()  # it may be early
            calls.wait(start(acp.rank()))

        if child := os.fork():
            assert os.waitpid(child, 0)[1] == 0
        else:
            try:
                calls.sync()
            except RuntimeError as error:
                os._exit(str(error) != "closed")
        acp.reset((acp.rank() + 1) % acp.procs())
        assert calls.all(acp.rank()) == ""
    with pytest.raises(RuntimeError, match="closed"):
        calls.sync()


@pytest.mark.parametrize(("ranks", "road"), [(1, "any"), (2, "any"), (3, "owner"), (2, "link")])
def test_an_extension_in_c_calls_the_library(passes, calls, ranks, road):
    passes([*launch.mpiexec(ranks), *launch.program(use_the_calls)], launch.ROADS[road] | calls)


def test_functions_of_another_version_are_refused(passes, calls, tmp_path):
    header = Path(acp.get_include(), "acp.h").read_text()
    assert "#define ACP_API_VERSION 1u" in header
    (tmp_path / "acp.h").write_text(header.replace("ACP_API_VERSION 1u", "ACP_API_VERSION 99u"))
    source = tmp_path / "calls.c"
    source.write_text(CALLS.read_text().replace("<acp.h>", '"acp.h"'))
    compile_c(source, tmp_path / "calls.so", "-shared", "-fPIC")
    program = """
try:
    import calls
except ImportError as error:
    print(error)
"""
    output = passes([sys.executable, "-c", program], {"PYTHONPATH": str(tmp_path)})
    assert "version 99 of acp.h, and acp_mpi has version 1: compile it again" in output


@pytest.mark.parametrize("python", ["", "#include <Python.h>\n"], ids=["alone", "python"])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_header_needs_nothing_but_the_c_library_and_perhaps_python(language, python):
    if language == "c++" and not shutil.which("g++"):
        pytest.skip("g++ is missing")
    includes = [f"-I{acp.get_include()}"]
    if python:
        includes.append(f"-I{sysconfig.get_path('include')}")
    subprocess.run(
        ["gcc", *FLAGS[2:], *includes, "-fsyntax-only", "-x", language, "-"],
        input=f"{python}#include <acp.h>\n",
        text=True,
        check=True,
    )
