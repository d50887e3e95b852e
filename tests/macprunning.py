"""How tests start `macprun`, and what they wait for: for `jobs/`."""

import contextlib
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


def nothing_is_left(job, pid):
    """Wait until all processes are gone: those that another one kills need a moment."""
    launch.until(lambda: not job.processes(), limit=20.0)
    assert f"acp_mpi.macprun.{pid}" not in Path("/proc/net/unix").read_text()
    assert not list(job.log.parent.glob("core*"))


def wait_for_ever():
    acp.init()
    print("joined", flush=True)
    with contextlib.suppress(TimeoutError):
        acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 1, timeout=100)


def ignore_ctrl_c():
    signal.signal(signal.SIGINT, lambda number, frame: print("caught", flush=True))
    print("ready", flush=True)
    while True:
        signal.pause()
