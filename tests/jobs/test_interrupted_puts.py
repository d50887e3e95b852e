"""Ctrl-C while elements come into a container or out of one: their blocks go in or back, once.

The owner stands still from some point of the call on, so that the call is interrupted there, and
goes on afterwards: then what was under way ends.
"""

import contextlib
import os
import signal
import threading

import launch
import pytest

LONG = 8 << 20  # bytes, more than fits what lies between two processes


@contextlib.contextmanager
def frozen_from(pid, place, name):
    """Freeze the process once the function is called, and have Ctrl-C come soon."""
    real = getattr(place, name)

    def first(*arguments):
        launch.freeze(pid)
        signal.setitimer(signal.ITIMER_REAL, 0.5)  # by then it waits
        return real(*arguments)

    setattr(place, name, first)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        os.kill(pid, signal.SIGCONT)
        setattr(place, name, real)


def used():
    """Return how much of the owner's heap is used when nothing is under way."""
    import acp_mpi as acp

    for _ in range(2):  # what was under way; what went back then
        acp.complete()
    return acp.heap_statistics(1).used


def into_a_list(pid, data, ga):
    import acp_mpi as acp
    from acp_mpi.engine import _engine

    line = acp.List(dtype=bytes, rank=1)
    line.push_back(b"gone")
    gone = line.begin()
    line.pop_back()
    before = used()
    for place, name, call in (
        (_engine, "copy_all", lambda: line.push_back_ga(ga, LONG)),
        (_engine, "block_of", lambda: line.push_back_ga(ga, LONG)),
        (_engine, "put_all", lambda: line.extend([data, data])),
        (acp.List, "_put_block", lambda: line.insert_ga(gone, ga, LONG)),
    ):
        with frozen_from(pid, place, name):
            call()
        assert (name, used()) == (name, before)
        assert line.empty()
    with frozen_from(pid, acp.List, "_put_block"):
        line.push_back_ga(ga, LONG)
    assert used() >= before + LONG
    assert line.size() == 1
    assert line.pop_back() == data
    assert used() < before + 1000  # the list keeps the node


def into_a_vector(pid, data, ga):
    import acp_mpi as acp
    from acp_mpi.engine import _engine

    vector = acp.Vector(f"V{LONG}", rank=1)
    before = used()
    with frozen_from(pid, _engine, "copy_all"):
        vector.push_back_ga(ga)
    assert used() == before
    assert vector.empty()
    with frozen_from(pid, acp.Vector, "_replace"):
        vector.push_back_ga(ga)
    assert used() >= before + LONG
    assert vector.pop_back() == data
    vector.shrink_to_fit()
    assert used() == before
    vector.push_back_ga(ga)
    vector.destroy()


def many_times_into_a_map(pid, data, ga):
    """Whenever it comes: the value is there as a whole or not, and what others get is theirs."""
    import acp_mpi as acp

    values = acp.Map(ranks=[1], key="q", value=bytes)
    for delay in (1, 2, 4, 8, 16, 32):
        try:
            signal.setitimer(signal.ITIMER_REAL, delay * 1e-3)
            values[delay] = data
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
        mine = [acp.malloc(LONG // 4, 1) for _ in range(4)]
        for at in mine:
            acp.put(at, bytes(LONG // 4))
        acp.complete()
        for at in mine:
            assert acp.get(at, bytearray(LONG // 4)) == bytes(LONG // 4)
            acp.free(at)
        assert values.get(delay, data) == data
    values.destroy()


@contextlib.contextmanager
def frozen(pid):
    """The same from now on."""
    interrupted = pytest.raises(KeyboardInterrupt)  # loading pytest may take longer than the timer
    launch.freeze(pid)
    try:
        with interrupted:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            yield
    finally:
        os.kill(pid, signal.SIGCONT)


def out_of_a_container(pid, data, ga):
    import acp_mpi as acp

    wide, numbers = acp.Vector("V100000", size=3, rank=1), acp.Vector("q", size=200_000, rank=1)
    here, objects, apart = acp.Vector("q"), acp.List(rank=1), acp.List(dtype=bytes)
    objects.append(b"short")
    before = used()
    objects.append(data[:300_000])
    for i in range(300):
        apart.append(b"%1000d" % i, rank=1)
    for call in (wide.pop, numbers.tolist, lambda: here.extend(numbers), objects.pop, apart.clear):
        with frozen(pid):
            call()
    assert used() <= before + 200  # the list keeps a node
    assert (wide.size(), numbers.size(), here.size()) == (2, 200_000, 0)
    assert (list(objects), list(apart)) == ([b"short"], [])


def into_being(pid, data, ga):
    """A container that nobody has a handle of is no more."""
    import acp_mpi as acp

    kinds = (
        lambda: acp.Vector("q", size=1000, rank=1),
        lambda: acp.List(rank=1),
        lambda: acp.Map(ranks=[1, 0]),
        lambda: acp.Workspace(1000, start_rank=1),
    )
    for kind in kinds:
        kind().destroy()  # its head stays for the next one
    before = used()
    for kind in kinds:
        with frozen(pid):
            kind()
        assert used() == before


def from_list_to_list(pid, data, ga):
    """They are in the one or in the other."""
    import acp_mpi as acp

    near, far = acp.List(dtype="q"), acp.List(dtype="q", rank=1)
    for line in (near, far):
        line.extend(range(300))
    acp.List(dtype="q", rank=1).destroy()
    calls = (
        lambda: near.splice(near.end(), far),
        lambda: near.splice_range(near.end(), far.begin().advance(100), far.begin().advance(200)),
        lambda: near.splice_range(near.end(), far.begin().advance(100), far.end()),
        lambda: near.splice(near.end(), far.begin()),
    )
    left = []
    for call in calls * 2:
        with frozen_from(pid, acp.List, "_take"):
            call()
        left.append(used())
        assert list(near) == list(far) == list(range(300))
    assert left[-1] <= left[3] + 1000  # from the first time on they lie in blocks of their own
    with frozen(pid):
        near.swap(far)
    assert used() == left[-1]
    goes_on = thawed_later(pid)
    with frozen_from(pid, acp.List, "_exchange"):  # it is taken back once that is possible
        near.swap(far)
    goes_on.join()
    assert list(near) == list(far) == list(range(300))


def thawed_later(pid):
    """Let the frozen process go on when Ctrl-C has come and the caller waits for it once more."""
    came = threading.Event()

    def ctrl_c(number, frame):
        came.set()
        raise KeyboardInterrupt

    def thaw():
        came.wait()
        launch.until(lambda: launch.stat(os.getpid())[0] == "S")
        os.kill(pid, signal.SIGCONT)

    signal.signal(signal.SIGALRM, ctrl_c)
    thread = threading.Thread(target=thaw, daemon=True)
    thread.start()
    return thread


def interrupted(what):
    from mpi4py import MPI

    import acp_mpi as acp

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    with acp.init(MPI.COMM_WORLD):
        pids = acp.allgather(os.getpid())
        if acp.rank() == 0:
            data = os.urandom(LONG)
            ga = acp.malloc(LONG, 0)
            acp.put(ga, data)
            globals()[what](pids[1], data, ga)
        acp.sync()


@contextlib.contextmanager
def stopped_in_the_heap(pid):
    """Stop a process, which takes blocks of this one's heap all the time, while it is in there."""
    import acp_mpi as acp

    in_vain = 0
    while in_vain < 3:  # once or twice it may be this one that was held up
        launch.freeze(pid)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            acp.free(acp.malloc(100))
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            in_vain += 1
        else:
            in_vain = 0
            os.kill(pid, signal.SIGCONT)
    yield
    os.kill(pid, signal.SIGCONT)


def wait_for_a_heap():
    import acp_mpi as acp

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    with acp.init():
        enough = acp.query_starter_ga(1)
        pids = acp.allgather(os.getpid())
        if acp.rank() == 1:
            while not acp.fetch_add8(enough, 0):
                acp.free(acp.malloc(100, 0))
        else:
            numbers, row, line = acp.Map(ranks=[0]), acp.Vector("q"), acp.List(dtype="q")
            old = acp.Vector("q", size=5)
            for call in (
                lambda: numbers.insert(1, "one"),
                lambda: row.push_back(2),
                lambda: line.push_back(3),
                lambda: acp.Counter(),
                lambda: old.destroy(),
            ):
                interrupted = pytest.raises(KeyboardInterrupt)
                with stopped_in_the_heap(pids[1]), interrupted:
                    signal.setitimer(signal.ITIMER_REAL, 0.3)
                    call()
                call()
            assert (dict(numbers.items()), list(row), list(line)) == ({1: "one"}, [2], [3])
            acp.fetch_add8(enough, 1)
        acp.sync()


def test_ctrl_c_ends_the_wait_for_a_heap_that_a_stopped_process_holds(passes):
    passes([*launch.mpiexec(2), *launch.program(wait_for_a_heap)])


@pytest.mark.parametrize("road", ["link", pytest.param("owner", marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", [into_a_list, into_a_vector, many_times_into_a_map])
def test_an_interrupted_put_gives_its_block_to_the_container_or_back(passes, what, road):
    command = [*launch.mpiexec(2), *launch.program(interrupted, what.__name__)]
    passes(command, launch.ROADS[road], 90.0)


@pytest.mark.parametrize("road", ["link", pytest.param("owner", marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", [out_of_a_container, into_being, from_list_to_list])
def test_what_an_interrupted_call_brings_goes_back(passes, what, road):
    command = [*launch.mpiexec(2), *launch.program(interrupted, what.__name__)]
    passes(command, launch.ROADS[road], 90.0)
