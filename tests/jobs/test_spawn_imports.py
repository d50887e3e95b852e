"""Modules and libraries that programs load, with spawn and without: each costs time at a start."""

import os
import subprocess
import sys
from pathlib import Path

import launch
import pytest
from macprunning import alone, macprun

import acp_mpi as acp
from acp_mpi.engine import _engine

HOOK = {"ACP_SPAWN": "1"}


def test_python_loads_nothing_of_ours_without_the_variable():
    code = "import sys; print([name for name in sys.modules if 'acp' in name])"
    env = {name: value for name, value in os.environ.items() if name != "ACP_SPAWN"}
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, env=env).stdout == "[]\n"


def test_the_module_of_ours_loads_little_besides_mpi4py_s():
    """What each of many children pays for at its start."""
    code = "import sys; from mpi4py import MPI; MPI.Comm.Get_parent(); print(*sorted(sys.modules))"
    loaded = [
        set(subprocess.check_output([sys.executable, "-c", code], text=True, env=env).split())
        for env in (os.environ | HOOK, os.environ)
    ]
    more = {name for name in loaded[0] - loaded[1] if not name.startswith(("acp_mpi", "_"))}
    more = {name for name in more if not name.startswith("importlib")}  # mpi4py's wheel has it
    # contextlib: Python 3.11 has it at this point anyway; warnings as importlib
    expected = {"array", "atexit", "collections.abc", "contextlib", "signal", "errno", "warnings"}
    expected.add("gc")  # it is part of Python itself, which loads no file for it
    assert more <= expected, more


def a_child_that_counts_modules():
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    parent.send(sorted(name for name in sys.modules if name.startswith("acp_mpi")), 0)
    parent.Disconnect()


def spawn_one_that_counts():
    from mpi4py import MPI

    command, *arguments = launch.program(a_child_that_counts_modules)
    child = MPI.COMM_SELF.Spawn(command, arguments)
    print(*child.recv())
    child.Disconnect()


def test_a_child_loads_few_modules_until_its_first_message(passes):
    """Each takes some 75 microseconds, however short it is."""
    loaded = passes([*launch.mpiexec(1), *launch.program(spawn_one_that_counts)], HOOK).split()
    assert "acp_mpi.spawn.standin.comm.bodies" in loaded
    assert not [name for name in loaded if "coll" in name or "ports" in name]
    assert len(loaded) <= 52, loaded


def test_init_alone_loads_few_modules():
    code = "import sys, acp_mpi as acp; acp.init(); print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert len([name for name in loaded if name.startswith("acp_mpi")]) <= 26, loaded


def libraries():
    acp.init()
    acp.sync()
    print("libcrypto", "libcrypto" in Path("/proc/self/maps").read_text())
    acp.finalize()


@pytest.mark.parametrize("links", ["crc", "mac", "encrypt"])
def test_openssl_is_loaded_where_something_is_encrypted_and_not_for_codes(passes, links):
    """It takes a millisecond of each start, and two megabytes."""
    if links == "encrypt" and not _engine.can_encrypt():
        pytest.skip("this system has no libcrypto")
    output = passes(macprun(alone(2, "two", libraries)), {"ACP_LINKS": links})
    assert output.count(f"libcrypto {links == 'encrypt'}") == 2


def refused_without_openssl():
    _engine.can_encrypt = bool  # no library is found
    with pytest.raises(acp.Error, match="ACP_LINKS=encrypt takes OpenSSL, and neither"):
        acp.init()


def test_encryption_without_openssl_is_an_error_of_init(passes):
    passes(launch.program(refused_without_openssl), {"ACP_LINKS": "encrypt"})
