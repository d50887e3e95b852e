"""The example dcfa_like: any number of ranks, device and way gives the same files."""

import functools
import os
import re
import shlex
import signal
import sys
from xml.etree import ElementTree

import launch
import numpy as np
import opencl
import pytest
from macprunning import MACPRUN

STEPS, EVERY = 45, 10


def dcfa(folder, *options, launcher=(), steps=STEPS, every=EVERY):
    """Return the command that runs it, as a user does in examples/."""
    words = ["--size", 40, "--columns", 33, "--steps", steps, "--every", every]
    words = [*launcher, sys.executable, "-m", "dcfa_like", "--out", folder, *words, *options]
    place = shlex.quote(str(launch.ROOT / "examples"))
    return ["sh", "-c", f"cd {place} && exec {shlex.join(map(str, words))}"]


def runs(pid, module):
    is_python = launch.executable(pid).startswith("python")
    return is_python and module in launch.command_line(pid).split()


@functools.cache
def expected(steps=STEPS, every=EVERY):
    """Return the plates that are written, computed by this process alone."""
    sys.path.append(str(launch.ROOT / "examples"))
    from dcfa_like.field import initial

    old = initial((40, 33))
    found = {0: old}
    for step in range(1, steps + 1):
        found[step] = new = old.copy()
        new[1:-1, 1:-1] += 0.2 * (
            old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:] - 4.0 * old[1:-1, 1:-1]
        )
        old = new
        if step % every and step < steps:
            del found[step]
    return found


def check(folder, *run):
    """The files are those that are expected, to the last bit."""
    found = {int(path.stem[6:]): np.load(path) for path in folder.glob("field-*.npy")}
    assert sorted(found) == list(expected(*run))
    assert all(found[step].tobytes() == each.tobytes() for step, each in expected(*run).items())


WAYS = [
    ("numpy", 1, []),
    ("numpy", 2, []),
    ("numpy", 3, ["--staged"]),
    ("numpy", 3, ["--without-delegate"]),
    ("opencl", 1, []),
    ("opencl", 2, []),
    ("opencl", 3, ["--staged", "--without-delegate"]),
]


@pytest.mark.parametrize(("device", "ranks", "options"), WAYS)
def test_each_way_writes_the_same_files(passes, tmp_path, device, ranks, options):
    if device == "opencl":
        opencl.needs_kernels()
    launcher = launch.mpiexec(ranks)
    folder = tmp_path / "out"
    output = passes(dcfa(folder, "--device", device, *options, launcher=launcher))
    check(folder)
    assert len(re.findall(r"step +\d+  largest change \d", output)) == len(expected()) - 1
    assert output.count(f": {device}") == ranks
    assert ("delegate:" in output) == ("--without-delegate" not in options)
    assert ElementTree.parse(folder / "gantt.svg").getroot().tag.endswith("svg")
    assert (folder / "field.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.smoke
def test_ranks_without_mpi_do_the_same(passes, tmp_path):
    folder = tmp_path / "out"
    passes(dcfa(folder, "--device", "numpy", launcher=[MACPRUN, "-n", 2]))
    check(folder)


@pytest.mark.parametrize(("victim", "again"), [("dcfa_like", 3), ("acp_mpi.delegates", 2)])
def test_after_a_death_it_goes_on_from_the_last_file(start, passes, tmp_path, victim, again):
    folder = tmp_path / "out"
    options = ["--device", "numpy"]
    job = start(dcfa(folder, *options, launcher=launch.mpiexec(2), steps=10**9))
    third = folder / "field-00000030.npy"
    launch.until(third.exists, job)
    os.kill(next(pid for pid in job.processes() if runs(pid, victim)), signal.SIGKILL)
    assert job.wait() != 0
    if victim == "acp_mpi.delegates":  # of a rank's death the launcher kills the others
        assert "PeerLostError" in job.output
    job.wait_for_all()
    for path in folder.glob("field-*.npy"):
        if path.name > third.name:
            path.unlink()
    job = start(dcfa(folder, *options))
    assert job.wait() == 1, job.output
    assert "has fields of another run; give --restart" in job.output
    passes(dcfa(folder, *options, "--restart", launcher=launch.mpiexec(again)))
    check(folder)


@pytest.mark.parametrize("ranks", [1, 2])
def test_it_may_go_on_when_the_delegate_has_died(start, tmp_path, ranks):
    folder, run = tmp_path / "out", (50_000, 2_500)  # it is killed long before the end
    options = ["--device", "numpy", "--go-on"]
    job = start(dcfa(folder, *options, launcher=launch.mpiexec(ranks), steps=run[0], every=run[1]))
    launch.until((folder / "field-00002500.npy").exists, job)
    os.kill(next(pid for pid in job.processes() if runs(pid, "acp_mpi.delegates")), signal.SIGKILL)
    assert job.wait() == 0, job.output
    assert "the delegate has died: on from step" in job.output
    check(folder, *run)
    assert not list(folder.glob("*.part"))


def test_what_it_cannot_do_is_said_once(start, tmp_path):
    folder = tmp_path / "out"
    for options, said in (
        (["--size", 3], "--size must be at least the number of ranks and two edges, 4"),
        (["--device", "cuda"], "cuda: "),
    ):
        job = start(dcfa(folder, *options, launcher=launch.mpiexec(2)))
        assert job.wait() == 1, job.output
        assert job.output.count(f"dcfa_like: {said}") == 1
