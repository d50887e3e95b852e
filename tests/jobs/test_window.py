"""MPI windows as jobs have them: what is committed, when there is none, when one is a road."""

import launch
import numpy as np
import pytest
from support import pattern

import acp_mpi as acp
from acp_mpi.__main__ import main
from acp_mpi.engine import _engine
from acp_mpi.job import membership

MIB = 1 << 20
NODES = launch.ROADS["nodes"]
# MPICH between two processes of one host as if they were on two.
APART = NODES | {"MPIR_CVAR_NOLOCAL": "1"}
TCP = APART | {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}

mpich_only = pytest.mark.skipif(
    launch.mpi_name() != "mpich", reason="the variables that choose this transport are MPICH's"
)


def state():
    return membership.job().window_state


def committed():
    return _engine.memory_statistics()[1]


def exchange(*words):
    """Move more than a slice between all ranks in every way; print the state of the window."""
    size = 2 * MIB + 24
    with acp.init(starter_size=size):
        rank, procs = acp.rank(), acp.procs()
        right, third = (rank + 1) % procs, (rank + 2) % procs
        start, half = acp.query_starter_ga, size // 2
        assert not acp.view(start(rank), (size,), np.uint8).any()
        acp.sync()
        data = pattern(half, rank)
        acp.put(start(right), data)
        assert np.array_equal(acp.get(start(right), np.empty(half, np.uint8)), data)
        acp.sync()
        acp.complete(acp.copy(start(third) + half, start(right), half))
        acp.sync()
        mine = acp.view(start(rank) + half, (half,), np.uint8)
        assert np.array_equal(mine, pattern(half, (rank - 2) % procs))
        array = acp.empty(half, np.uint8)
        acp.complete(acp.copy(acp.query_ga(array), start(right), half))
        assert np.array_equal(array, data)
        block = acp.malloc(half)
        blocks = acp.allgather(block)
        acp.put(blocks[right], data)
        assert np.array_equal(acp.get(blocks[right], np.empty(half, np.uint8)), data)
        acp.sync()
        acp.free(block)
        registered = np.zeros(half, np.uint8)
        with acp.register_memory(registered) as key:
            acp.complete(acp.copy(acp.query_ga(key), start(right), half))
        assert np.array_equal(registered, data)
        acp.sync()
        if rank == 0:
            print(f"window: {state()}")
            for word in words:
                assert word in state(), state()


@pytest.mark.parametrize("ranks", [2, 3])
def test_long_transfers_by_the_window(passes, ranks):
    command = launch.program(exchange, "ACP_PATH")
    passes([*launch.mpiexec(ranks), *command], launch.ROADS["window"])


@pytest.mark.skipif(launch.mpi_name() != "openmpi", reason="the variable is Open MPI's")
@pytest.mark.parametrize(
    ("env", "said"),
    [({}, "nothing to do: ranks of one node"), (NODES, "links only between nodes")],
)
def test_a_warning_of_a_window_that_mpi_cannot_make_says_what_to_do(passes, env, said):
    no_component = {"OMPI_MCA_osc": "^sm,rdma,ucx,monitoring,portals4"}
    output = passes([*launch.mpiexec(2), *launch.program(exchange, "none")], no_component | env)
    assert said in output


@mpich_only
@pytest.mark.parametrize("ranks", [2, 3])
def test_where_the_network_does_it_alone_the_window_is_the_road_between_nodes(passes, ranks):
    output = passes([*launch.mpiexec(ranks), *launch.program(exchange)], APART)
    if "self-test failed" in output:
        pytest.skip(f"MPICH has no such transport here: {output.strip().splitlines()[-1]}")
    assert "road for put and get between nodes" in output


@mpich_only
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_put_that_comes_after_its_flush_is_caught(passes, ranks):
    words = ("a put was not there when its flush had returned, rank 0 to rank 1", "links only")
    passes([*launch.mpiexec(ranks), *launch.program(exchange, *words)], TCP)


@mpich_only
def test_such_a_window_is_usable_as_a_forced_road(passes):
    words = ("a put was not there", "road for put and get")
    command = launch.program(exchange, *words)
    passes([*launch.mpiexec(2), *command], TCP | launch.ROADS["window"])


def place(array):
    """Return where an array is in the window part of this rank, and whether it is in it."""
    at = acp.query_ga(array) - acp.query_starter_ga(acp.rank())
    return at, 0 <= at < 64 * MIB


def window_arrays(on_its_own):
    """Move arrays of the window part between all ranks, drop them, and find later ones zero."""
    size = 2 * MIB + 24
    with acp.init():
        rank, procs = acp.rank(), acp.procs()
        right = (rank + 1) % procs
        large, small = acp.empty(size, np.uint8), acp.zeros(100)
        assert place(large)[1] == (on_its_own == "True")
        assert not place(small)[1]
        assert not place(acp.empty(size, np.uint8, window=False))[1]
        assert place(acp.zeros(100, window=True))[1]
        array = acp.zeros(size, np.uint8, window=True)
        assert place(array)[1]
        array[:] = pattern(size, rank)
        places = acp.allgather(acp.query_ga(array))
        for _ in range(3):  # by link, and then by the window
            back = acp.get(places[right], np.empty(size, np.uint8))
            assert np.array_equal(back, pattern(size, right))
            acp.sync()
            acp.put(places[right], pattern(size, rank))
            acp.sync()
            assert np.array_equal(array, pattern(size, (rank - 1) % procs))
            array[:] = pattern(size, rank)
            acp.sync()
        with pytest.raises(acp.AddressError):
            acp.put(places[right] + size - 4, b"12345678")
        with pytest.raises(acp.HeapFullError, match="half of it is for arrays"):
            acp.empty(32 * MIB, np.uint8, window=True)
        if on_its_own == "True":
            assert not place(acp.empty(32 * MIB, np.uint8))[1]  # no place is left: any memory
        block = acp.malloc(size)
        acp.sync()
        for _ in range(3):
            held = [acp.empty(size, np.uint8, window=True) for _ in range(10)]
            assert not any(one.any() for one in held)
            for one in held:
                one[:] = 0xA5
            del held, one
        acp.free(block)
        acp.sync()


@pytest.mark.parametrize(
    ("env", "unasked"),
    [
        ({}, False),
        (NODES, True),
        (launch.ROADS["window"], True),
        pytest.param(NODES | launch.ROADS["window"], True, marks=pytest.mark.smoke),
    ],
)
def test_arrays_of_a_mebibyte_lie_in_the_window_part_where_the_group_spans_nodes(
    passes, env, unasked
):
    passes([*launch.mpiexec(2), *launch.program(window_arrays, unasked)], env)


def no_window_array():
    with acp.init():
        with pytest.raises(acp.Error, match=r"zeros: window=True.*none: ACP_WINDOW_SIZE=0"):
            acp.zeros(8, window=True)
        assert acp.zeros(8, window=False).sum() == acp.empty(MIB).sum() == 0


def test_an_array_that_wants_a_window_where_there_is_none_says_why(passes):
    command = launch.program(no_window_array)
    passes([*launch.mpiexec(2), *command], NODES | {"ACP_WINDOW_SIZE": "0"})


def one_node():
    with acp.init():
        assert state() == "64.0 MiB a rank"
        assert committed() < MIB


def several_nodes():
    with acp.init(heap_size=200 * MIB):
        assert 64 * MIB < committed() < 65 * MIB
        with pytest.raises(acp.HeapFullError):
            acp.empty(137 * MIB, np.uint8)
        acp.empty(135 * MIB, np.uint8)


def little_memory():
    with acp.init(heap_size=8 * MIB):
        acp.empty(3 * MIB, np.uint8)
        assert acp.group().window is not None
        assert 4 * MIB < committed() < 9 * MIB


@pytest.mark.parametrize(
    ("function", "env"), [(one_node, {}), (several_nodes, NODES), (little_memory, NODES)]
)
def test_the_window_part_is_committed_where_the_group_spans_nodes(passes, function, env):
    passes([*launch.mpiexec(2), *launch.program(function)], env)


def no_window(reason):
    with acp.init():
        assert acp.group().window is None
        assert reason in state(), state()
        assert committed() < MIB
        right = acp.query_starter_ga((acp.rank() + 1) % acp.procs())
        acp.put(right, b"12345678")
        assert acp.get(right, bytearray(8)) == b"12345678"


@pytest.mark.parametrize("road", ["nodes", "window"])
def test_a_size_of_zero_is_no_window(passes, road):
    env = launch.ROADS[road] | {"ACP_WINDOW_SIZE": "0"}
    output = passes([*launch.mpiexec(2), *launch.program(no_window, "ACP_WINDOW_SIZE=0")], env)
    assert "links only" not in output  # as wished: nothing to warn of


def below_multiple():
    import mpi4py

    mpi4py.rc.thread_level = "serialized"
    no_window("SERIALIZED")


@pytest.mark.parametrize("road", ["any", "nodes", "window"])
def test_below_thread_level_multiple_there_are_links_only(passes, road):
    output = passes([*launch.mpiexec(2), *launch.program(below_multiple)], launch.ROADS[road])
    warned = "thread level SERIALIZED" in output and "mpi4py.rc.thread_level" in output
    assert warned == (road != "any")
    assert output.count("links only") == (road != "any")


def test_a_process_without_mpi_has_no_window(passes):
    passes(launch.program(no_window, "no MPI"), {"ACP_MPI": "0"})


def has_a_window():
    with acp.init():
        assert acp.group().window is not None


@pytest.mark.smoke
def test_with_stderr_closed_there_is_a_window_all_the_same(passes):
    closed = ["sh", "-c", 'exec 2>&-; exec "$@"', "sh"]
    passes([*launch.mpiexec(2), *closed, *launch.program(has_a_window)])


def put_to_one_that_computes():
    with acp.progress():
        acp.init()
    mine = acp.view(acp.query_starter_ga(acp.rank()), (1,), np.int64)
    acp.sync()
    if acp.rank() == 0:
        for rank in range(1, acp.procs()):
            acp.put(acp.query_starter_ga(rank), np.array([rank]))
    while mine[0] != acp.rank():  # no call of MPI, nor of ours
        pass
    acp.finalize()


def test_who_drives_mpi_during_init_only_does_not_make_the_window_a_road(passes):
    passes([*launch.mpiexec(3), *launch.program(put_to_one_that_computes)], NODES)


def two_groups():
    acp.init()
    for group in acp.groups():
        assert (group.window is not None) == (group.name == acp.group().name)
    for rank in range(acp.procs()):
        acp.put(acp.query_starter_ga(rank) + 8 * acp.rank(), b"12345678")
    acp.sync()
    assert acp.get(acp.query_starter_ga(0), bytearray(32)) == b"12345678" * 4
    acp.finalize()


@pytest.mark.parametrize("road", ["nodes", "window"])
def test_each_group_has_a_window_of_its_own(start, meeting, road):
    place = meeting({"ocean": 2, "land": 2}) | launch.ROADS[road]
    jobs = [
        start([*launch.mpiexec(2), *launch.program(two_groups)], place | {"ACP_GROUP": name})
        for name in ("ocean", "land")
    ]
    for job in jobs:
        assert job.wait() == 0, "\n".join(job.output for job in jobs)


def finalize_mpi_first():
    from mpi4py import MPI

    acp.init()
    win = acp.group().window
    MPI.Finalize()
    assert win == MPI.WIN_NULL


def init_again():
    for _ in range(3):
        has_a_window()


@pytest.mark.parametrize("function", [finalize_mpi_first, init_again])
@pytest.mark.parametrize("road", ["window"])
def test_the_window_goes_with_the_job(passes, function, road):
    passes([*launch.mpiexec(2), *launch.program(function)], launch.ROADS[road])


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "64.0 MiB a rank"),
        ({"ACP_WINDOW_SIZE": "0"}, "none: ACP_WINDOW_SIZE=0"),
        ({"ACP_WINDOW_SIZE": "1M"}, "1.0 MiB a rank"),
        ({"ACP_WINDOW_SIZE": "25%", "ACP_HEAP_SIZE": "200M"}, "50.0 MiB a rank"),
        ({"ACP_PARENT": "0"}, "none: Spawn started this group on one node"),
        ({"ACP_PARENT": "0", "ACP_WINDOW_SIZE": "1M"}, "1.0 MiB a rank"),
        ({"ACP_PARENT": "0", "ACP_PATH": "window"}, "road for put and get between all ranks"),
        ({"ACP_PATH": "window"}, "road for put and get between all ranks (ACP_PATH)"),
    ],
)
def test_info_says_what_there_is_of_a_window(passes, env, said):
    output = passes([*launch.mpiexec(2), *launch.program(show)], env)
    assert any(line.split()[:2] == ["MPI", "window"] and said in line
               for line in output.splitlines())  # fmt: skip


def show():
    main(["info"])
