"""Several groups are one job: everything works over all of its ranks, whatever started them."""

import ctypes
import itertools
import os
import sys

import launch
import pytest

import acp_mpi as acp
from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.row import Process
from acp_mpi.job.rendezvous.server import Server

SIZES = {"air": ("mpi", 2), "ice": ("acp", 2), "ocean": ("other", 2), "solo": ("acp", 1)}
OF_ONE_MPI = SIZES | {"ocean": ("mpi", 2)}


def expected(sizes):
    return {name: ranks for name, (_, ranks) in sizes.items()}


# Everything, over all ranks ---------------------------------------------------------------------


def know_each_other(sizes):
    """The table of groups is the same everywhere."""
    groups, first = acp.groups(), 0
    for group, item in zip(groups, sizes.split(","), strict=True):
        name, kind, size = item.split(":")
        assert (group.name, group.has_mpi, group.size) == (name, kind != "acp", int(size))
        assert list(group.ranks) == list(range(first, first + group.size))
        assert acp.group(name) == group
        first += group.size
        mine = acp.rank() in group.ranks
        assert mine == (acp.group() == group)
        if not (mine and group.has_mpi):
            assert group.comm is None
            assert group.window is None
        else:
            assert group.comm.size == group.size
            assert group.ranks[group.comm.rank] == acp.rank()
            assert group.window.group.size == group.size
    assert first == acp.procs()
    assert acp.ranks() == list(range(first))


def use_memory_of_each_color():
    rank, procs = acp.rank(), acp.procs()
    plain = [bytearray(8 * procs) for _ in range(acp.colors())]
    keys = [acp.register_memory(memory, color) for color, memory in enumerate(plain)]
    places = acp.allgather([acp.query_ga(key) for key in keys])
    for color in range(acp.colors()):
        for other in range(procs):
            assert acp.query_color(places[other][color]) == color
            acp.put(places[other][color] + 8 * rank, (100 * color + rank).to_bytes(8, "little"))
    acp.sync()
    for color, memory in enumerate(plain):
        assert list(memoryview(memory).cast("q")) == [100 * color + r for r in range(procs)]
    acp.sync()
    for key in keys:
        key.close()


def use_heaps():
    rank, procs = acp.rank(), acp.procs()
    blocks = [acp.malloc(100_000, rank=other) for other in range(procs)]
    for ga in blocks:
        acp.put(ga, bytes([rank + 1]) * 100_000)
    everyones = acp.allgather(blocks)
    next_one = everyones[(rank + 1) % procs]
    for ga in next_one:
        assert acp.get(ga, bytearray(100_000)) == bytes([(rank + 1) % procs + 1]) * 100_000
    acp.sync()
    for ga in next_one:  # who frees is not who allocated
        acp.free(ga)


def load_and_store():
    """Ranks of a node see each other's memory, whatever their group is."""
    rank, procs = acp.rank(), acp.procs()
    for other in range(procs):
        at = acp.query_address(acp.query_starter_ga(other) + 8 * rank)
        ctypes.c_int64.from_address(at).value = 7 * rank
    acp.sync()
    mine = acp.get(acp.query_starter_ga(rank), bytearray(8 * procs))
    assert list(memoryview(mine).cast("q")) == [7 * r for r in range(procs)]
    acp.sync()


def use_containers():
    rank, procs = acp.rank(), acp.procs()
    last = procs - 1
    if rank == last:
        acp.publish("map", acp.Map())
        acp.publish("chain", acp.List(rank=0))
    made = None
    if rank == 0:
        made = (acp.Vector("q", rank=last), acp.Deque("V13", rank=1 % procs),
                acp.Counter(rank=last), acp.Set(key=int), acp.Workspace(8 * procs))  # fmt: skip
    vector, line, counter, numbers, area = acp.bcast(made)
    table, chain = acp.lookup("map"), acp.lookup("chain")
    table[f"rank {rank}"] = {"pid": os.getpid(), "group": acp.group().name}
    chain.push_back((rank, "of a chain"), rank=(rank + 1) % procs)
    for i in counter.take(100):
        vector.push_back(i)
        line.push_front(b"%13d" % i)
        numbers.insert(i)
    area.write(rank.to_bytes(8, "little"), 8 * rank)
    acp.sync()
    assert sorted(vector.tolist()) == list(range(100)) == sorted(numbers)
    assert sorted(line) == [b"%13d" % i for i in range(100)]
    assert sorted(chain) == [(r, "of a chain") for r in range(procs)]
    assert len(table) == procs
    assert {r for g in acp.groups() for r in g.ranks if table[f"rank {r}"]["group"] == g.name} == {
        *range(procs)
    }
    assert list(memoryview(area.read(bytearray(8 * procs), 0)).cast("q")) == list(range(procs))
    acp.sync()


def meet_in_parts():
    firsts = [group.ranks[0] for group in acp.groups()]
    if acp.rank() in firsts:
        acp.barrier(firsts)
    acp.barrier(acp.group().ranks)
    for root in firsts:
        assert acp.bcast({"from": acp.rank()}, root=root) == {"from": root}
    names = {rank: group.name for group in acp.groups() for rank in group.ranks}
    assert dict(enumerate(acp.allgather(acp.group().name))) == names


def change_ranks():
    """Reset turns all ranks around; groups go with their processes."""
    before, last = acp.rank(), acp.procs() - 1
    names = acp.allgather(acp.group().name)
    acp.put(acp.query_starter_ga(before), b"old")
    acp.reset(last - before)
    assert acp.rank() == last - before
    assert acp.get(acp.query_starter_ga(acp.rank()), bytearray(3)) == bytes(3)
    assert acp.allgather(acp.group().name) == names[::-1]
    for group in acp.groups():
        assert [names[last - rank] for rank in group.ranks] == [group.name] * group.size
    comm = acp.group().comm
    if comm is not None:
        assert acp.group().ranks[comm.rank] == acp.rank()


def live_together(sizes, road):
    acp.init()
    know_each_other(sizes)
    for _ in range(2):
        use_memory_of_each_color()
        use_heaps()
        if road == "any":
            load_and_store()
        use_containers()
        meet_in_parts()
        change_ranks()
    if not acp.group().has_mpi:
        assert not {"numpy", "mpi4py"} & set(sys.modules)
    acp.finalize()


def described(sizes):
    return ",".join(f"{name}:{kind}:{ranks}" for name, (kind, ranks) in sizes.items())


@pytest.mark.parametrize("road", launch.ROADS)
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(OF_ONE_MPI, id="one MPI", marks=pytest.mark.slow),
        pytest.param(SIZES, id="both"),
    ],
)
def test_everything_works_over_the_ranks_of_all_groups(groups, meeting, all_pass, sizes, road):
    place = meeting(expected(sizes)) | launch.ROADS[road]
    all_pass(groups(sizes, live_together, described(sizes), road, env=place))


@pytest.mark.smoke
def test_a_process_without_mpi_and_three_groups_with(groups, meeting, all_pass):
    sizes = {"master": ("acp", 1), "a": ("mpi", 3), "b": ("mpi", 2), "c": ("mpi", 1)}
    place = meeting(expected(sizes))
    all_pass(groups(sizes, live_together, described(sizes), "any", env=place))


# Any order --------------------------------------------------------------------------------------


def join_and_add():
    with acp.init():
        acp.fetch_add8(acp.query_starter_ga(0), 1)
        acp.sync()
        assert acp.fetch_add8(acp.query_starter_ga(0), 0) == acp.procs()
        acp.sync()


ORDERED = {"first": ("acp", 1), "second": ("mpi", 2), "third": ("mpi", 1)}


@pytest.mark.slow
@pytest.mark.parametrize("order", list(itertools.permutations(ORDERED)), ids="-".join)
def test_groups_start_in_any_order(groups, tmp_path, all_pass, order):
    """Each starts when the one before is there."""
    path = tmp_path / "secret"
    with Server(secret.create(path), expected(ORDERED)) as server:
        place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(path)}
        jobs = {}
        for name in order:
            jobs |= groups({name: ORDERED[name]}, join_and_add, env=place)
            while name != order[-1] and not {g.name: g for g in server.arrivals()}[name].complete:
                assert all(job.running for job in jobs[name]), jobs[name][0].output
        table = server.wait(40)
        assert [group.name for group in table.groups] == list(ORDERED)
        all_pass(jobs)


# Two jobs at once -------------------------------------------------------------------------------


def tell_each_other(word):
    with acp.init():
        assert acp.allgather(word) == [word] * acp.procs()
        acp.publish(f"word {acp.rank()}", word)
        for rank in acp.ranks():
            assert acp.lookup(f"word {rank}") == word
        acp.sync()


def test_two_jobs_at_once_do_not_mix_and_write_no_files(groups, tmp_path, all_pass):
    """Known fault 14: the C library's launcher shared and left port files."""
    sizes, jobs = {"a": ("mpi", 2), "b": ("acp", 1)}, []
    (tmp_path / "keys").mkdir()
    servers = []
    for word in ("one", "two"):
        path = tmp_path / "keys" / word
        server = Server(secret.create(path), expected(sizes))
        servers.append(server)
        place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(path)}
        jobs.append(groups(sizes, tell_each_other, word, env=place))
    for job, server in zip(jobs, servers, strict=True):
        all_pass(job)
        table = server.wait(10)
        processes = [Process.of(table.row(slot)) for slot in range(len(table))]
        assert processes[table.group("b").offset].pid == job["b"][0].pid
        assert len({process.pid for process in processes}) == len(processes) == 3
        assert len({(process.node, process.host) for process in processes}) == 1
        server.close()
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith("job-")}
    assert left == {"keys"}


# Versions ---------------------------------------------------------------------------------------


def come_as_others(protocol):
    """By a protocol that the rendezvous does not speak, then as another state of the sources."""
    from acp_mpi.job.rendezvous import announcement, handshake

    ours, sources, true = int(protocol), announcement.SOURCES, handshake.steps

    def steps(side):
        """What is said first names the protocols; the engine has only its own."""
        inside = true(side)
        said, size = next(inside)
        answer = yield said[:4] + bytes([newest, said[5], oldest]) + said[7:], size
        while True:
            answer = yield inside.send(answer)

    handshake.steps = steps
    for newest, oldest, said in ((1, 1, "1"), (ours + 2, ours + 1, f"{ours + 1} to {ours + 2}")):
        handshake.VERSION, handshake.OLDEST = newest, oldest
        with pytest.raises(acp.Error, match=f"speaks protocol {ours}, and this one {said}: instal"):
            acp.init()
    handshake.steps, announcement.SOURCES = true, "0" * 16
    with pytest.raises(
        acp.Error, match=f"runs .* sources 0{{16}}.*sources {sources}.*: install the"
    ):
        acp.init()
    announcement.SOURCES = sources
    with acp.init():
        assert acp.procs() == 2


def test_a_group_of_another_version_is_refused(start, tmp_path, all_pass):
    from acp_mpi.job.rendezvous import handshake

    path = tmp_path / "secret"
    with Server(secret.create(path), {"first": 1, "second": 1}) as server:
        place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(path), "ACP_MPI": "0"}
        first = start(launch.program(join_and_leave), place | {"ACP_GROUP": "first"})
        launch.until(lambda: server.arrivals()[0].complete, first)  # whoever is second is refused
        program = launch.program(come_as_others, handshake.VERSION)
        second = start(program, place | {"ACP_GROUP": "second"})
        all_pass({"first": [first], "second": [second]})


def join_and_leave():
    acp.init()
    acp.finalize()


def be_two_states_of_the_sources():
    from mpi4py import MPI

    from acp_mpi.job.rendezvous import announcement

    sources = announcement.SOURCES
    if MPI.COMM_WORLD.rank == 1:
        announcement.SOURCES = "0" * 16
    with pytest.raises(
        acp.Error, match=r"rank 1 of this group runs .*sources 0{16}.*, and rank 0 "
    ):
        acp.init()
    announcement.SOURCES = sources
    with acp.init():
        acp.sync()


def test_a_rank_of_another_version_is_named_on_all_ranks(passes):
    passes([*launch.mpiexec(2), *launch.program(be_two_states_of_the_sources)])


# Many -------------------------------------------------------------------------------------------


MANY = """
import os, sys
import acp_mpi as acp

def be_one_of_many(rank):
    os.environ["ACP_GROUP_RANK"] = str(rank)
    with acp.init():
        last = acp.procs() - 1
        acp.fetch_add8(acp.query_starter_ga(last), 1)
        acp.sync()
        assert acp.fetch_add8(acp.query_starter_ga(last), 0) == acp.procs()
        acp.sync()

pids = []  # forked before anything begins, so that they share the memory of the interpreter
for rank in range(int(os.environ["ACP_GROUP_SIZE"])):
    pids.append(os.fork())
    if not pids[-1]:
        be_one_of_many(rank)
        os._exit(0)
sys.exit(any([os.waitpid(pid, 0)[1] for pid in pids]))
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_hundred_processes_without_mpi_join(start, tmp_path):
    path = tmp_path / "secret"
    with Server(secret.create(path), {"many": 200}, timeout=300) as server:
        place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(path),
                 "ACP_JOIN_TIMEOUT": "300", "ACP_MPI": "0", "ACP_GROUP": "many",
                 "ACP_GROUP_SIZE": "200"}  # fmt: skip
        job = start([sys.executable, "-P", "-c", MANY], place)
        assert job.wait(300) == 0, job.output
        assert len(server.wait(10)) == 200
        launch.until(lambda: not job.processes())
