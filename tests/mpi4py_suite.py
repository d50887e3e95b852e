"""mpi4py's own tests of spawn, dynamic processes and futures, on ours and on the MPI library.

They are the specification, and not kept here: the source distribution of the installed version is
fetched by pip when this runs.

    .venv/mpich/bin/python tests/mpi4py_suite.py FOLDER [TEST ...] [--mpi] [--ranks 1 2]

`--mpi` runs them on the MPI library instead. TEST is the name of a file without `test_` and `.py`,
or `futures`. Names that begin with `joined:` run with COMM_WORLD and COMM_SELF replaced by
communicators of ours: `joined:cco_buf`.
"""

import argparse
import os
import re
import runpy
import subprocess
import sys
import tarfile
from importlib import metadata
from pathlib import Path

import launch

ALL = ["spawn", "dynproc", "futures"]
JOINED = [
    "p2p_buf", "p2p_buf_matched", "p2p_obj", "p2p_obj_matched", "request", "group", "status",
    "msgzero", "pickle", "comm", "comm_inter", "attributes", "errhandler",
    "cco_obj", "cco_obj_inter", "cco_buf", "cco_buf_inter", "cco_vec", "cco_vec_inter",
    "cco_nb_buf", "cco_nb_vec", "cco_pr_buf", "cco_pr_vec",
]  # fmt: skip
"""What has a meaning on communicators of several groups."""
BUT = {
    "mpiabi": "testGetFortranInfo",  # MPICH's wheel, which has no Fortran, fails it by itself
    "objmodel": "testCAPI",  # MESSAGE_NO_PROC stays mpi4py's own: what C makes of it is of ours
    "joined:comm": "testPickle",  # a communicator of the program's own, not COMM_WORLD
    "joined:comm_inter": "testHandle",  # MPI knows nothing of ours, so they have no handle
    "joined:p2p_buf": "testConstructor",  # nor have their requests
    "joined:p2p_obj": "testCommLock",  # mpi4py's objects of that communicator have that lock
}
"""Tests that cannot pass, by their names, and why."""


def unmodified(source: Path) -> list[str]:
    """Return what has no processes to start: all of it is to be as it was where ours is."""
    names = {path.stem.removeprefix("test_") for path in (source / "test").glob("test_*.py")}
    return sorted(names - {"spawn", "dynproc"})


def fetch(folder: Path) -> Path:
    """Return the unpacked source distribution of the installed mpi4py."""
    version = metadata.version("mpi4py")
    source = folder / f"mpi4py-{version}"
    if not source.exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary=:all:"]
        command += ["--no-build-isolation", "-d", str(folder), f"mpi4py=={version}"]
        subprocess.run(command, check=True)
        with tarfile.open(folder / f"mpi4py-{version}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return source


def run_joined(test: str, options: list[str]) -> None:
    """Run a test of mpi4py with communicators of ours for those of the world."""
    import acp_mpi as acp
    from acp_mpi.spawn import MPI
    from acp_mpi.spawn.standin.comm.bodies import IntraBody, ranks_in
    from acp_mpi.spawn.standin.p2p.transport import Circle, derived

    for name in ("COMM_WORLD", "COMM_SELF"):
        ranks = ranks_in(getattr(MPI, name))
        body = IntraBody(derived(0, name, ranks), Circle(ranks, acp.rank()))
        setattr(MPI, name, body.shown())
    sys.path[0] = os.path.dirname(test)
    sys.argv = [test, *options]
    import arrayimpl  # of mpi4py's tests; what is on devices is for the MPI library alone

    arrayimpl.ArrayBackends[:] = [
        kind
        for kind in arrayimpl.ArrayBackends
        if not any(word in kind.__name__ for word in ("DLPack", "GPU"))
    ]
    runpy.run_path(test, run_name="__main__")


def command(source: Path, test: str, ranks: int) -> tuple[list[str], Path]:
    """Return how a test is started, and where."""
    if test == "futures":
        return [sys.executable, "test_futures.py", "-q"], source / "demo" / "futures"
    launcher = launch.mpiexec(ranks)
    path = source / "test" / f"test_{test.removeprefix('joined:')}.py"
    chosen = []
    if test in BUT:
        names = set(re.findall(r"def (test\w+)", path.read_text())) - {BUT[test]}
        chosen = [option for name in sorted(names) for option in ("-k", f"*.{name}")]
    program = [__file__, "--joined", str(path)] if test.startswith("joined:") else [path.name]
    return [*launcher, sys.executable, *program, "-q", *chosen], source / "test"


def run(folder: Path, test: str, ranks: int, by_mpi: bool, limit: float) -> tuple[bool, str]:
    """Run a test; return whether all passed, and what it printed."""
    line, where = command(fetch(folder), test, ranks)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path} | ({} if by_mpi else {"ACP_SPAWN": "1"})
    with launch.Job(line, folder / f"{test.replace(':', '-')}-{ranks}.log", env, where) as job:
        status, said = job.wait(limit), job.output
        # Under some launchers a run that failed ends with 0: ranks say how it went.
        return status == 0 and "\nOK" in said and "\nFAILED" not in said, said


def main() -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the source distribution is kept")
    parser.add_argument("tests", nargs="*", metavar="TEST", help=f"default: {' '.join(ALL)}")
    parser.add_argument("--mpi", action="store_true", help="on the MPI library")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for each")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for test in options.tests or ALL:
        for ranks in [1] if test == "futures" else options.ranks:
            good, said = run(options.folder.resolve(), test, ranks, options.mpi, options.limit)
            failed += not good
            print(f"{test}, {ranks} ranks: {'passed' if good else 'FAILED'}", flush=True)
            if not good:
                print(said, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--joined"]:
        run_joined(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
