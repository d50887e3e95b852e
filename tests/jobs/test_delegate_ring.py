"""Commands of a delegate that a kernel begins, by storing a number in a slot of a ring."""

import ctypes
import os
import shutil
import signal
from pathlib import Path

import launch
import pytest
from delegating import blocked, pid_of, the_delegate
from growing import PATIENCE, newcomer

import acp_mpi as acp

SLOTS = 4


def stores_of(kind):
    """Return the device of a ring, and what makes store(slot, k): as a kernel of that kind does."""
    import numpy as np

    if kind == "host":
        return None, lambda ring: ring.slots.__setitem__
    if kind == "cuda":
        import standin

        driver, word = standin.driver(), standin.Array(np.zeros(1, "u8"))

        def of_cuda(ring):
            def store(slot, k):
                ctypes.memmove(driver.standin_bytes(word.address), k.to_bytes(8, "little"), 8)
                there = ring.pointer + 8 * slot
                standin.call(driver.cuMemcpyAsync, there, word.address, 8, None)

            return store

        return "cuda", of_cuda
    import opencl
    import pyopencl as cl

    queue = opencl.queue()
    text = "kernel void fire(global ulong *ring, ulong slot, ulong k) { ring[slot] = k; }"
    fire = cl.Program(queue.context, text).build().fire

    def of_opencl(ring):
        return lambda slot, k: fire(queue, (1,), None, ring.buffer, np.uint64(slot), np.uint64(k))

    return queue, of_opencl


def fire_each_command(folder, kind, local):
    """A firing does what the command does, with what lies in memory then."""
    import numpy as np

    acp.init()
    d = the_delegate(local == "True")
    device, storing = stores_of(kind)
    here, ranks = acp.rank(), acp.ranks()
    there, path = Path(folder, f"{here}.npy"), str(Path(folder, f"{here}-other.npy"))
    field, short, back = np.zeros(1000), np.zeros(3), acp.zeros(1000)
    long_one, out = acp.zeros(40_000), np.zeros(40_000)
    ring = d.ring(SLOTS, device=device)
    assert (len(ring.slots), ring.armed, ring.closed) == (SLOTS, False, False)
    ring.command(1, d.save, there, field)
    ring.command(2, d.allreduce, short, "max")
    ring.command(3, d.allreduce, long_one, out=out)
    ring.command(4, d.call, "os.path:basename", "a/b")
    ring.command(5, d.load, there, back)
    ring.command(2**64 - 1, d.bcast, short, ranks[-1])
    store, fired = storing(ring), 0

    def do(k):
        nonlocal fired
        request = ring.next()
        store(fired % SLOTS, k)
        fired += 1
        return request.wait(PATIENCE)

    with ring:
        assert ring.armed
        for step in range(1, 4):
            field[:], short[:], long_one[:] = step, (here, step, -here), step
            assert do(1) is None
            assert np.array_equal(np.load(there), field)
            assert do(2).tolist() == [max(ranks), step, -min(ranks)]
            assert do(3) is out
            assert (out == step * len(ranks)).all()
            assert do(4) == "b"
            assert do(5) is None
            assert np.array_equal(back, field)
            assert do(2**64 - 1).tolist() == [ranks[-1], step, -ranks[-1]]
    assert not ring.armed
    ring.command(1, d.save, path, field)  # another one from now on
    ring.arm()
    do(1)
    assert os.path.exists(path)
    acp.sync()
    ring.close()
    ring.close()
    assert ring.closed
    acp.finalize()


@pytest.mark.parametrize(
    ("kind", "n", "road", "local"),
    [
        pytest.param("host", 2, "any", False, marks=pytest.mark.smoke),
        ("host", 3, "link", False),
        ("host", 1, "any", True),
        ("cuda", 2, "any", False),
        ("opencl", 2, "any", False),
        ("opencl", 1, "any", True),
    ],
)
def test_a_kernel_begins_what_the_host_has_prepared(passes, folder, kind, n, road, local):
    if kind == "opencl":
        import opencl

        opencl.needs_kernels()
    elif kind == "cuda" and not shutil.which("gcc"):
        pytest.skip("gcc is missing")
    program = launch.program(fire_each_command, folder, kind, local)
    passes([*launch.mpiexec(n), *program], launch.ROADS[road])


def fire_in_order():
    """Firings begin in their order, whoever asks for them and when."""
    acp.init()
    for local in (False, True):
        d = the_delegate(local)
        with d.ring(SLOTS) as ring:
            ring.disarm()
            for k in range(1, SLOTS + 1):
                ring.command(k, d.call, "os.path:basename", f"a/{k}")
            for round in range(3):
                early = []
                for slot in reversed(range(SLOTS)):
                    ring.slots[slot] = slot + 1 if round % 2 else SLOTS - slot
                assert not ring.armed
                ring.arm()  # what was stored before begins now
                if round:
                    early = [ring.next() for _ in range(SLOTS)]
                found = d.call("os.path:basename", "a/last")
                found.wait(PATIENCE)
                ring.disarm()
                requests = early or [ring.next() for _ in range(SLOTS)]
                texts = [request.wait(PATIENCE) for request in requests]
                order = range(1, SLOTS + 1) if round % 2 else range(SLOTS, 0, -1)
                assert texts == [str(k) for k in order]
                assert not ring.slots.any()
            with pytest.raises(acp.Error, match="firing 12 has not come; arm the ring"):
                ring.next()
        d.close()
    acp.finalize()


def test_firings_begin_in_the_order_of_their_slots(passes):
    passes(launch.program(fire_in_order), {"ACP_MPI": "0"})


def meet_errors(folder):
    """What is wrong with a firing is an error of its request, or of `close`."""
    import numpy as np

    acp.init()
    for local in (False, True):
        d = the_delegate(local)
        x = np.zeros(100)
        for slots in (0, 513):
            with pytest.raises(ValueError, match="a ring has 1 to 512"):
                d.ring(slots)
        ring = d.ring(2)
        with pytest.raises(acp.DeviceError, match=r"ring\(device=\)"):
            ring.buffer  # noqa: B018
        for k in (0, -1, 2**64):
            with pytest.raises(ValueError, match="not a number from 1"):
                ring.command(k, d.ping)
        other = acp.delegate(local=not local)
        for maker in (d.statistics, d.checkpoint, other.ping, print):
            with pytest.raises(TypeError, match="give a method of the ring's delegate"):
                ring.command(1, maker)
        with pytest.raises(ValueError, match="leave after= out"):
            ring.command(1, d.commit, "none", after=d.ping())
        for unfit in (x[::2], 2.5, [1.0, 2.0], np.broadcast_to(x, (2, 100))):
            with pytest.raises((TypeError, ValueError)):
                ring.command(1, d.save, Path(folder, "none"), unfit)
        with pytest.raises((TypeError, ValueError)):
            ring.command(1, d.allreduce, 2.5)
        with pytest.raises(ValueError, match="overlap"):
            ring.command(1, d.allreduce, x[1:], out=x[:-1])
        ring.command(1, d.load, Path(folder, "none"), x)
        ring.command(9, d.ping)
        with ring:
            with pytest.raises(ValueError, match="the ring is armed"):
                ring.command(1, d.ping)
            ring.slots[0] = 1
            with pytest.raises(FileNotFoundError, match="none"):
                ring.next().wait(PATIENCE)
            ring.slots[1] = 7
            request = ring.next()
            with pytest.raises(acp.Error, match=r"firing 1, in slot 1, stored 7, .* are: 1, 9"):
                request.wait(PATIENCE)
        ring.close()
        with pytest.raises(acp.ClosedError):
            ring.arm()
        for close in ("ring", "delegate"):
            ring = d.ring()
            ring.slots[0] = 3
            ring.arm()
            d.ping().wait(PATIENCE)
            with pytest.raises(acp.Error, match=r"stored 3, .* are: none"):
                (ring if close == "ring" else d).close()
            assert ring.closed
    acp.finalize()


def test_a_number_that_is_unknown_is_an_error_that_names_it(passes, folder):
    passes(launch.program(meet_errors, folder), {"ACP_MPI": "0"})


def fail_to_begin():
    """What keeps a command from its begin is an error of the firing, and the next one begins."""
    acp.init()
    d = the_delegate(local=True)
    ring = d.ring()
    ring.command(1, d.ping)
    begin, rings = d._line._server.command, d._line._server._rings

    def failing(*arguments):
        rings._command = begin
        raise acp.RankError("no such rank")

    rings._command = failing
    with ring:
        ring.slots[0] = 1
        with pytest.raises(acp.RankError, match="no such rank"):
            ring.next().wait(PATIENCE)
        ring.slots[1] = 1
        ring.next().wait(PATIENCE)
    acp.finalize()


def test_a_command_that_cannot_begin_is_an_error_of_its_firing(passes):
    passes(launch.program(fail_to_begin), {"ACP_MPI": "0"})


def overwrite(folder):
    """A slot that is filled again before it was taken loses a firing, which is noticed."""
    acp.init()
    d = the_delegate()
    pid = pid_of(d)
    ring = d.ring(2)
    ring.command(1, d.call, "os.path:basename", "a/one")
    ring.command(2, d.call, "os.path:basename", "a/two")
    ring.arm()
    requests = [ring.next() for _ in range(3)]
    launch.freeze(pid)
    for firing, k in enumerate((1, 1, 2)):
        ring.slots[firing % 2] = k
    os.kill(pid, signal.SIGCONT)
    assert [request.wait(PATIENCE) for request in requests[:2]] == ["two", "one"]
    assert not requests[2].done
    ring.disarm()
    with pytest.raises(acp.Error, match="firing 2 of a ring, in slot 0, has not come"):
        requests[2].wait(PATIENCE)
    ring.close()
    acp.finalize()


def test_a_firing_that_was_overwritten_is_missed(passes, folder):
    passes(launch.program(overwrite, folder), {"ACP_MPI": "0"})


def outlive_it(folder):
    """The delegate dies while rings are armed."""
    acp.init()
    for _ in range(2):
        d = the_delegate()
        slow = blocked(d, Path(folder, "none"))
        armed, other = d.ring(), d.ring()
        armed.command(1, d.ping)
        armed.command(2, d.call, "growing:until_there", str(Path(folder, "none")))
        armed.arm()
        requests = [armed.next() for _ in range(3)]
        armed.slots[0] = 1
        requests[0].wait(PATIENCE)
        armed.slots[1] = 2
        launch.until(lambda slots=armed.slots: slots[1] == 0)
        os.kill(pid_of(d), signal.SIGKILL)
        for request in (*requests[1:], slow):
            with pytest.raises(acp.PeerLostError, match="the delegate, rank"):
                request.wait(PATIENCE)
        with pytest.raises(acp.PeerLostError):
            armed.next()
        with pytest.raises(acp.PeerLostError):
            other.arm()
        armed.close()
        other.close()
    acp.finalize()


def test_its_death_ends_firings(passes, folder):
    passes(launch.program(outlive_it, folder), {"ACP_MPI": "0"})


def arm_and_die(folder, road):
    acp.init()
    d = acp.delegate(start=False)
    ring = d.ring()
    ring.command(1, d.ping)
    ring.arm()
    ring.slots[0] = 1
    ring.next().wait(PATIENCE)
    Path(folder, "armed").touch()
    os.kill(os.getpid(), signal.SIGKILL)


def go_on_without(folder, road):
    """A rank that has armed a ring dies; those of others go on."""
    acp.init()
    d = the_delegate()
    ring = d.ring()
    ring.command(1, d.ping)
    ring.arm()
    acp.spawn_group(newcomer(arm_and_die, folder, road), mpi=False)
    launch.until(lambda: Path(folder, "armed").exists())
    launch.until(lambda: acp.refresh() is not None or acp.losses())
    for firing in range(20):
        request = ring.next()
        ring.slots[firing % 8] = 1
        request.wait(PATIENCE)
        acp.refresh()
    ring.close()
    acp.finalize()


@pytest.mark.parametrize("road", ["any", "link"])
def test_the_ring_of_a_rank_that_died_is_forgotten(passes, folder, road):
    program = launch.program(go_on_without, folder, road)
    passes(program, launch.ROADS[road] | {"ACP_MPI": "0"})


def end_with_one_armed(folder):
    """Finalize, and a reset, close what is armed; what was stored before begins."""
    import numpy as np

    acp.init()
    for end in (lambda: acp.reset(0), acp.finalize):
        for local in (True,) if end is not acp.finalize else (True, False):
            d = the_delegate(local)
            ring, x = d.ring(), np.ones(10)
            ring.command(1, d.save, Path(folder, f"{local}.npy"), x)
            ring.slots[0] = 1
            ring.arm()
        end()
        assert ring.closed
        for path in Path(folder).iterdir():
            assert (np.load(path) == 1).all()
            path.unlink()


def test_the_end_closes_a_ring_that_is_armed(passes, folder):
    passes(launch.program(end_with_one_armed, folder), {"ACP_MPI": "0"})
