"""What `repr` says of containers: their contents, if these come at once."""

import numpy as np
import pytest
from support import right

import acp_mpi as acp
from acp_mpi.datastructs import container

pytestmark = pytest.mark.mpi


@pytest.fixture
def patient(monkeypatch):
    """Have contents come however long that takes on a busy machine."""
    monkeypatch.setattr(container, "PATIENCE", 60.0)


def on_all():
    return "rank 0" if acp.procs() == 1 else f"ranks 0-{acp.procs() - 1}"


def test_contents_are_shown_wherever_they_are(patient):
    there = right()
    for made, text in (
        (acp.Vector("d", [1.5, 2.0], rank=there), f"Vector of 2 on rank {there}: [1.5, 2.0]"),
        (acp.Deque("i", [3], rank=there), f"Deque of 1 on rank {there}: [3]"),
        (acp.List([1, "b"], rank=there), f"List of 2 on rank {there}: [1, 'b']"),
        (acp.Map({"a": 1}), f"Map of 1 on {on_all()}: {{'a': 1}}"),
        (acp.Map(key="q", value="d"), f"Map of 0 on {on_all()}: {{}}"),
        (acp.Set({2}, ranks=[there]), f"Set of 1 on rank {there}: {{2}}"),
        (acp.MultiSet(["x", "x"]), f"MultiSet of 1 on {on_all()}: {{'x': 2}}"),
        (acp.Counter(5, rank=there), f"Counter on rank {there}: 5"),
        (acp.Workspace(64 * acp.procs()), f"Workspace of {64 * acp.procs()} bytes on {on_all()}"),
    ):
        with made:
            assert repr(made) == f"<acp_mpi.{text}>"


def test_of_many_and_of_long_elements_the_first_are_shown(patient):
    with acp.Vector("i", np.arange(11), rank=right()) as many:
        assert repr(many).endswith(f" of 11 on rank {right()}: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …]>")
    with acp.Map(dict.fromkeys(range(5000), "x")) as many:
        assert repr(many).startswith(f"<acp_mpi.Map of 5000 on {on_all()}: {{")
        assert repr(many).count(": 'x'") == 10
        assert repr(many).endswith(", …}>")
    with acp.List(["x" * 100_000], rank=right()) as long:
        assert len(repr(long)) < 150


def lost():
    raise RuntimeError("it cannot be made here")


class Lost:
    def __reduce__(self):
        return lost, ()


class Mute:
    def __repr__(self):
        raise RuntimeError("it has no words")


def test_without_contents_it_says_which_one_it_is(patient, monkeypatch):
    with acp.List([Mute()], rank=right()) as mute:
        assert "of 1 on" in repr(mute)
    with acp.List([Lost()], rank=right()) as unknown:
        assert repr(unknown) == f"<acp_mpi.List at {unknown.ga:#x}>"
    with acp.Map() as nested:
        nested["itself"] = nested
        assert f"{{'itself': <acp_mpi.Map at {nested.ga:#x}>}}" in repr(nested)
        acp.sync()
    assert repr(nested) == f"<acp_mpi.Map at {nested.ga:#x}>"  # it is gone
    monkeypatch.undo()
    with acp.Counter(rank=right()) as counter:
        assert repr(counter) in (
            f"<acp_mpi.Counter at {counter.ga:#x}>",
            f"<acp_mpi.Counter on rank {right()}: 0>",
        )
