"""Limits of control groups, as batch systems set them: refused in time, and nobody is killed."""

import contextlib
import uuid
from pathlib import Path

import launch
import numpy as np
import pytest

import acp_mpi as acp
from acp_mpi.engine import _engine

MIB = 1 << 20
LIMIT = 256 * MIB
PIECE = 4 * MIB

# Where the groups for memory are, what a group's limit is called.
_TREES = {
    "memory": (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    "": (Path("/sys/fs/cgroup"), "memory.max"),
}


def _own_group():
    """Return the folder of the control group that this process is in, and the file of its limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller, (mount, limit) in _TREES.items():
            if controller in controllers.split(",") and Path(mount, path[1:], limit).exists():
                return Path(mount, path[1:]), limit
    pytest.skip("no control group of this process has a limit of memory")


@pytest.fixture
def limited():
    """Make a group with a limit, and one without in it: return what brings a command there."""
    parent, limit = _own_group()
    outer = parent / f"acp_mpi_{uuid.uuid4().hex}"
    inner = outer / "task"
    try:
        outer.mkdir()
        (outer / limit).write_text(str(LIMIT))
        with contextlib.suppress(OSError):  # version 2 hands a controller on when it is told to
            (outer / "cgroup.subtree_control").write_text("+memory")
        inner.mkdir()
    except OSError as error:
        with contextlib.suppress(OSError):
            outer.rmdir()
        pytest.skip(f"control groups cannot be made here: {error}")
    yield ["sh", "-c", f'echo $$ > {inner}/cgroup.procs && exec "$@"', "sh"]
    for group in (inner, outer):
        launch.until(lambda group=group: not (group / "cgroup.procs").read_text())
        group.rmdir()


def take_what_there_is(kind):
    """Take memory until no more is given, and use all of it, one after the other."""
    assert _engine.memory_total() == LIMIT
    with acp.init():
        share = LIMIT // 2 // acp.procs()
        assert share <= acp.heap_statistics().limit < share + MIB
        acp.sync()
    with acp.init(heap_size=LIMIT - PIECE):
        ones = np.ones(PIECE, np.uint8)
        taken = []
        acp.allgather(None)  # what messages need is there from now on
        for turn in range(acp.procs()):
            acp.sync()
            while acp.rank() == turn:
                try:
                    taken.append(_taken(kind, ones))
                except acp.HeapFullError:
                    break
            acp.sync()
        assert sum(acp.allgather(len(taken))) * PIECE > LIMIT // 4
        print("refused", flush=True)


def _taken(kind, ones):
    if kind == "arrays":
        array = acp.zeros(PIECE, np.uint8)
        array[:] = 1
        return array
    place = acp.malloc(PIECE, (acp.rank() + 1) % acp.procs())
    acp.put(place, ones)
    return place


@pytest.mark.parametrize("kind", ["arrays", "blocks"])
def test_memory_is_refused_before_a_process_is_killed(passes, limited, kind):
    command = [*launch.mpiexec(2), *launch.program(take_what_there_is, kind)]
    output = passes([*limited, *command])
    assert output.count("refused") == 2, output
