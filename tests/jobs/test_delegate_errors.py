"""Delegates: what cannot be done is an error that says why, and loses nothing."""

import gc
import os
import shutil
import subprocess
import weakref
from pathlib import Path

import launch
import pytest
from delegating import the_delegate
from growing import PATIENCE, Unreadable

import acp_mpi as acp


def refused(kind, command):
    """Return a reference to an array with which a command is refused."""
    import numpy as np

    array = np.arange(5.0)
    with pytest.raises(kind):
        command(array)
    return weakref.ref(array)


def meet_errors(folder):
    import numpy as np

    acp.init()
    with pytest.raises(acp.Error, match="there is none on this node"):
        acp.delegate(start=False)
    d = the_delegate()
    array, good, short = np.arange(10.0), Path(folder, "good.npy"), Path(folder, "short.npy")
    np.save(good, array)
    np.save(Path(folder, "fortran.npy"), np.zeros((3, 4), order="F"))
    short.write_bytes(good.read_bytes()[:-1])
    Path(folder, "junk.npy").write_bytes(b"junk")
    Path(folder, "folder").mkdir()

    def fails(request, kind, text):
        with pytest.raises(kind, match=text):
            request.wait(PATIENCE)

    into = np.full(10, 7.0)
    fails(d.load(Path(folder, "none.npy"), into), FileNotFoundError, "none.npy")
    fails(d.load(Path(folder, "folder"), into), (IsADirectoryError, ValueError), "folder")
    fails(d.load(short, into), ValueError, "short.npy")
    fails(d.load(Path(folder, "junk.npy"), into), ValueError, "junk.npy")
    fails(d.load(Path(folder, "fortran.npy"), into), ValueError, "Fortran order")
    fails(d.load(good, np.zeros(10, "f4")), TypeError, "elements of float64")
    fails(d.load(good, into, at=1), ValueError, "has 10 elements, and 1 to 11")
    assert (into == 7.0).all()  # nothing was written before it was found out
    fails(d.save(Path(folder, "no", "x.npy"), array), FileNotFoundError, "x.npy")
    fails(d.save(Path(folder, "folder"), array), IsADirectoryError, "folder")
    for look in ("test", "copied"):
        request = d.save(Path(folder, "folder"), array, snapshot=False)
        with pytest.raises(IsADirectoryError):
            launch.until(getattr(request, look))
    fails(d.save(Path(folder, "good.npy", "x"), array), NotADirectoryError, "good.npy")
    os.mkfifo(Path(folder, "pipe"))
    fails(d.save(Path(folder, "pipe"), array), ValueError, "pipe is a device, a pipe or a socket")
    Path(folder, "pipe").unlink()
    part = Path(folder, "part.npy")
    d.save(part, array, at=0, shape=(30,)).wait(PATIENCE)
    fails(d.save(part, array, at=5, shape=(30,)), ValueError, "overlap 0 to 10")
    fails(d.save(part, array, at=10, shape=(31,)), ValueError, r"begun with the shape \(30,\)")
    fails(d.save(part, array.astype("f4"), at=10, shape=(30,)), ValueError, "of float32")
    fails(d.save(part, array, at=25, shape=(30,)), ValueError, "elements 25 to 35")
    d.save(part, array, at=10, shape=(30,), parts=4).wait(PATIENCE)
    fails(d.save(part, array, at=20, shape=(30,), parts=3), ValueError, "with parts=4, and")
    with pytest.raises(ValueError, match="parts=0"):
        d.save(part, array, at=20, shape=(30,), parts=0)
    fails(d.commit(part), ValueError, "element 20 of 30 was not saved")
    fails(d.commit(part), FileNotFoundError, "part.npy")
    fails(d.call("os:nothing"), AttributeError, "nothing")
    fails(d.call("operator:truediv", 1, 0), ZeroDivisionError, "division")
    fails(d.call("operator:mul", b"x", 2_000_000), ValueError, "1048576 at most")
    fails(d.call("growing:fail_oddly"), RuntimeError, "Odd: of no module")
    fails(d.save(part, acp.register_memory(bytearray(8))), TypeError, "bytes have no type")
    fails(d.call("growing:Unreadable"), ValueError, "unreadable")
    fails(d.call("operator:not_", Unreadable()), ValueError, "unreadable")
    with pytest.raises(ValueError, match='is not "module:function"'):
        d.call("os")
    assert sorted(os.listdir(folder)) == [
        "folder",
        "fortran.npy",
        "good.npy",
        "junk.npy",
        "short.npy",
    ]
    d.ping().wait(PATIENCE)  # it is well
    d.call("os:nothing")
    d.call("operator:truediv", 1, 0)
    with pytest.raises(AttributeError, match="nothing"):
        d.close()
    closed, d = d, acp.delegate(start=False)
    for kind, command in (
        (acp.ClosedError, lambda x: closed.save("x", x)),
        (TypeError, lambda x: d.save("x", x, shape=[None])),
        (ValueError, lambda x: d.load(good, x[::2])),
        (TypeError, lambda x: d.checkpoint(folder, {"one": x}, None)),
        (TypeError, lambda x: d.checkpoint(folder, [x], 1)),
        (TypeError, lambda x: d.checkpoint(folder, {"one": x, "two": object()}, 1)),
        (ValueError, lambda x: d.load("x" * 2_000_000, x)),
    ):
        given = refused(kind, command)
        gc.collect()
        assert given() is None  # nobody keeps it
    d.call("os:nothing")
    with pytest.raises(AttributeError, match="nothing"):
        acp.finalize()


def test_errors_are_those_of_the_file_system(passes, folder):
    passes(launch.program(meet_errors, folder), {"ACP_MPI": "0"})


def fill_it(folder):
    import numpy as np

    acp.init()
    d = the_delegate()
    small, large = Path(folder, "small.npy"), Path(folder, "large.npy")
    for snapshot in (True, False):
        with pytest.raises(OSError, match=r"No space left.*large.npy"):
            d.save(large, np.ones(200_000), snapshot=snapshot).wait(PATIENCE)
        assert not os.listdir(folder)
        d.save(small, np.ones(1000)).wait(PATIENCE)
        small.unlink()
    kept = Path(folder, "kept")
    with pytest.raises(OSError, match=r"No space left.*kept"):
        d.checkpoint(kept, {"x": np.ones(200_000)}, 1).wait(PATIENCE)
    assert not os.listdir(kept)
    d.checkpoint(kept, {"x": np.ones(1000)}, 2).wait(PATIENCE)
    assert d.restore(kept, {"x": np.zeros(1000)}) == 2
    acp.finalize()


def test_a_full_disk_leaves_nothing_behind(passes, folder):
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if (
        not shutil.which("mount")
        or subprocess.run(mount, check=False, capture_output=True).returncode
    ):
        pytest.skip("this user cannot mount a small file system")
    try:
        passes(launch.program(fill_it, folder), {"ACP_MPI": "0"})
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def meet_refusals(folder):
    """What another user may not write, and a reset while there is one."""
    import numpy as np

    acp.init()
    d = the_delegate()
    with pytest.raises(acp.Error, match="service"):
        acp.reset(0)
    Path(folder).chmod(0o500)
    local = acp.delegate(local=True)
    os.seteuid(65534)
    with pytest.raises(PermissionError, match=r"x\.npy"):
        local.save(Path(folder, "x.npy"), np.zeros(3)).wait(PATIENCE)
    os.seteuid(0)
    assert not os.listdir(folder)
    d.ping().wait(PATIENCE)
    acp.finalize()


def test_what_may_not_be_is_refused(passes, folder):
    if os.geteuid():
        pytest.skip("only root can become another user")
    passes(launch.program(meet_refusals, folder), {"ACP_MPI": "0"})
