"""How tests start `macprun`, and what they wait for: for `jobs/`."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import launch

import acp_mpi as acp

MACPRUN = Path(sys.executable).with_name("macprun")


def macprun(*groups, options=()):
    """Return the command line for groups, each a list of words that follow -n."""
    words = [":", *(word for group in groups for word in (":", "-n", *map(str, group)))][2:]
    return [str(MACPRUN), *map(str, options), *words]


def alone(size, name, function, *arguments, options=()):
    return [size, "--name", name, *options, *launch.program(function, *arguments)]


def mpi(size, name, function, *arguments, options=(), python=sys.executable):
    program = launch.program(function, *arguments, python=python)
    return [size, "--mpi", "--name", name, *options, *program]


def is_said(job, text, times=1):
    """Wait until a job has printed something so often."""
    launch.until(lambda: job.output.count(text) >= times, job)


def seen_segments(job):
    """Return the `segments` of a job that has joined, once macprun watches its ranks."""
    (child,) = children(job.pid)
    ranks = sum(launch.executable(pid).startswith("python") for pid in _mapping(job))
    launch.until(lambda: _watched(child) >= ranks, job)
    return segments(job)


def segments(job):
    """Return the files in memory that MPI has made for the processes of a job; there are some."""
    found = {path for paths in _mapping(job).values() for path in paths}
    assert found
    return found


def children(pid):
    """Return the children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def launcher(job):
    """Return the launcher of the only group that has one."""
    (pid,) = (
        pid
        for child in children(job.pid)
        for pid in children(child)
        if not launch.executable(pid).startswith("python")
    )
    return pid


def ranks(job):
    """Return the ranks that a launcher has started."""
    return [pid for pid in job.processes() if b"ACP_MPI=1" in variables(pid)
            and launch.executable(pid).startswith("python")]  # fmt: skip


def variables(pid):
    """Return the environment of a process; [] if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


def _mapping(job):
    """Return who has mapped which files of MPI."""
    words = {pid: set(launch.maps(pid).split()) for pid in job.processes()}
    files = ("/dev/shm/mpich_shm_", "/dev/shm/sm_segment.", "/dev/shm/vader_segment.")
    found = {pid: {word for word in words[pid] if word.startswith(files)} for pid in words}
    return {pid: paths for pid, paths in found.items() if paths}


def _watched(pid):
    links = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(os.readlink(link))
    return sum("pidfd" in link for link in links)


def nothing_is_left(job, pid, files=()):
    """Wait until all processes are gone: those that another one kills need a moment.

    So are the files that they had, and the name of macprun: a process that ends has lost its
    environment, by which it is known, some time before its sockets.
    """
    launch.until(lambda: not job.processes())
    launch.until(lambda: not any(map(os.path.exists, files)))
    launch.until(lambda: f"acp_mpi.macprun.{pid}." not in Path("/proc/net/unix").read_text())
    assert not list(job.log.parent.glob("core*"))


def wait_for_ever():
    acp.init()
    print("joined", flush=True)
    with contextlib.suppress(TimeoutError):
        acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1, timeout=600)


def ignore_ctrl_c():
    signal.signal(signal.SIGINT, lambda number, frame: print("caught", flush=True))
    print("ready", flush=True)
    while True:
        signal.pause()


def function_of(pid):
    """Return the name of the test function that a process runs."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return ""
    return words[3] if len(words) > 3 and words[1].endswith("program.py") else ""
