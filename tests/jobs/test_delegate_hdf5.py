"""Datasets of HDF5 that a delegate writes and reads, for one rank or for several."""

import os
import sys
from pathlib import Path

import launch
import pytest
from growing import PATIENCE

import acp_mpi as acp

pytest.importorskip("h5py")


def save_and_load(folder):
    import h5py
    import numpy as np

    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    path = Path(folder, f"{acp.rank()}.h5")
    kinds = {
        "f8": np.arange(1000.0),
        "deep/er/i2": np.arange(60, dtype="i2").reshape(3, 4, 5),
        "empty": np.zeros((0, 3)),
        "one": np.array(3 + 4j),
        "bool": np.array([True, False]),
        "pairs": np.ones(3, [("a", "i4"), ("b", "f8", (2,))]),
        "text": np.array([b"a", b"bcd"]),
        "big": np.arange(5, dtype=">i4"),
    }
    for snapshot in (True, False):  # one after the other, and again in place of the first
        for key, array in kinds.items():
            d.save(path, array, key=key, snapshot=snapshot)
        acp.waitall([d.save(path, kinds["f8"] + 1, key="f8")], timeout=PATIENCE)
        there = kinds | {"f8": kinds["f8"] + 1}
        with h5py.File(path) as file:
            for key, array in there.items():
                assert file[key].dtype == array.dtype
                assert file[key].shape == array.shape
                assert np.array_equal(file[key][...], array)
        for key, array in there.items():
            into = np.zeros_like(array)
            d.load(path, into, key=key).wait(PATIENCE)
            assert np.array_equal(into, array)
    with h5py.File(path, "a") as file:
        file.create_dataset("pieces", data=kinds["f8"], chunks=(100,), compression="gzip")
        file["words"] = "of any length"
    some = acp.zeros(500)
    for key, more in (("pieces", 0), ("f8", 1)):
        d.load(path, some, at=100, key=key).wait(PATIENCE)
        assert np.array_equal(some, kinds["f8"][100:600] + more)

    def fails(request, kind, text):
        with pytest.raises(kind, match=text):
            request.wait(PATIENCE)

    before = path.read_bytes()
    fails(d.load(path, some, key="none"), KeyError, "no dataset 'none'")
    fails(d.load(path, some, key="deep"), KeyError, "no dataset 'deep'")
    for into in (some, acp.register_memory(bytearray(8))):
        fails(d.load(path, into, key="words"), TypeError, "words")
    fails(d.load(path, some, at=600, key="f8"), ValueError, "has 1000 elements")
    fails(d.load(path, some, key="big"), TypeError, "elements of >i4")
    fails(d.load(Path(folder, "none.h5"), some, key="f8"), FileNotFoundError, "none.h5")
    fails(d.save(path, b"bytes", at=3, key="x"), ValueError, "of which shape")
    fails(d.save(path, np.array(["a"]), key="x"), TypeError, "U1")
    fails(d.save(Path(folder, "x.npy"), some, key="x"), ValueError, "has no datasets")
    other = Path(folder, f"{acp.rank()}.raw")
    d.save(other, some).wait(PATIENCE)
    fails(d.save(other, some, key="x"), ValueError, "not a file of HDF5")
    assert path.read_bytes() == before
    assert not list(Path(folder).glob(f"{acp.rank()}*.part"))
    acp.sync()
    acp.finalize()


def test_datasets_are_as_h5py_has_them(start, tmp_path):
    job = start([*launch.mpiexec(2), *launch.program(save_and_load, tmp_path)])
    assert job.wait() == 0, job.output


def save_together(folder):
    import h5py
    import numpy as np

    acp.init()
    d = acp.delegate(timeout=PATIENCE)
    here, n = acp.rank(), len(acp.ranks())
    path = Path(folder, "all.h5")
    whole = np.arange(n * 1000.0).reshape(n, 10, 100)
    how = {"at": 1000 * here, "shape": whole.shape}
    requests = [d.save(path, whole[here] * i, key=f"x{i}", parts=n, **how) for i in range(3)]
    acp.waitall(requests, timeout=PATIENCE)
    acp.sync()
    with h5py.File(path) as file:
        for i in range(3):
            assert np.array_equal(file[f"x{i}"][...], whole * i)
    acp.sync()
    before = path.read_bytes()
    d.save(path, whole[here], key="late", **how).wait(PATIENCE)
    assert path.read_bytes() == before
    acp.sync()
    if here == 0:
        with pytest.raises(ValueError, match="overlap"):
            d.save(path, whole[0], key="late", **how).wait(PATIENCE)
        d.save(path, whole[0], key="half", **how).wait(PATIENCE)
        with pytest.raises(ValueError, match="element 1000 of"):
            d.commit(path).wait(PATIENCE)
    acp.sync()
    with h5py.File(path) as file:
        assert sorted(file) == ["late", "x0", "x1", "x2"]
        assert np.array_equal(file["late"][...], whole)
    acp.finalize()


def test_several_ranks_write_several_datasets_of_one_file(start, tmp_path):
    job = start([*launch.mpiexec(4), *launch.program(save_together, tmp_path)])
    assert job.wait() == 0, job.output
    assert [name for name in os.listdir(tmp_path) if "h5" in name] == ["all.h5"]


def do_without(folder):
    import numpy as np

    sys.modules["h5py"] = None
    acp.init()
    d = acp.delegate(local=True)
    path = Path(folder, "x.h5")
    for request in (d.save(path, np.zeros(3), key="x"), d.load(__file__, np.zeros(3), key="x")):
        with pytest.raises(ImportError, match="pip install h5py"):
            request.wait(PATIENCE)
    acp.finalize()


def test_without_h5py_it_says_so(passes, tmp_path):
    passes(launch.program(do_without, tmp_path), {"ACP_MPI": "0"})
    assert not [name for name in os.listdir(tmp_path) if "x.h5" in name]
