"""A group is lost, or never comes: the others are told which, go on or end, and nothing stays."""

import contextlib
import itertools
import os
import re
import signal
import sys
from pathlib import Path

import launch
import pytest
from arriving import announced, run_out_of_time
from guard import Guard

import acp_mpi as acp
from acp_mpi.job.rendezvous import handshake, secret
from acp_mpi.job.rendezvous.server import Server
from acp_mpi.tools import info

SIZES = {"air": ("mpi", 2), "doomed": ("mpi", 2), "solo": ("acp", 1)}
OF_BOTH = {"air": ("mpi", 2), "doomed": ("other", 2), "solo": ("acp", 1)}


def expected(sizes):
    return {name: ranks for name, (_, ranks) in sizes.items()}


def until(condition, what):
    guard = Guard(40.0)
    while not condition():
        assert not guard.over, what()
        os.sched_yield()


def said(jobs):
    return "\n".join(job.output for group in jobs.values() for job in group)


def nothing_stays(jobs):
    """The launcher of a group that was killed may take a moment to end its ranks."""
    flat = [job for group in jobs.values() for job in group]
    until(lambda: not any(job.processes() for job in flat), lambda: said(jobs))
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("acp")]


# A group is lost after it has joined ---------------------------------------------------------


def work_until_a_group_is_lost(folder):
    acp.init()
    rank, doomed = acp.rank(), list(acp.group("doomed").ranks)
    lost = acp.bcast(acp.Counter(rank=doomed[0]) if rank == 0 else None)
    place = acp.malloc(1000, rank=doomed[-1]) if rank == 0 else 0
    place = acp.bcast(place)
    acp.sync()
    Path(folder, f"{rank} {os.getpid()}").touch()
    if rank in doomed:
        while True:  # until it is killed, or its launcher ends it
            signal.pause()
    try:
        while True:
            acp.put(place, b"x" * 1000)
            lost.next()
    except acp.PeerLostError as error:
        assert error.rank in doomed  # noqa: PT017
    living = [r for r in range(acp.procs()) if r not in doomed]
    while True:
        try:
            acp.sync()
        except acp.PeerLostError:
            acp.refresh()
        else:
            break
    assert acp.ranks() == living
    for ga in (place, acp.query_starter_ga(doomed[0])):
        with pytest.raises(acp.PeerLostError):
            acp.put(ga, b"x")
    acp.barrier(living)
    for other in living:
        acp.fetch_add8(acp.query_starter_ga(other), 1)
    if rank == living[0]:
        acp.publish("made", (acp.Map(), acp.Set(), acp.MultiSet(), acp.Workspace(64 * acp.procs())))
    counts, keys, bag, space = acp.lookup("made")
    for made in (counts, keys, bag, space):
        assert made.statistics().ranks == tuple(living)
    counts[rank] = acp.group().name
    keys.insert(rank)
    bag.insert("all")
    space.write(b"x" * 64, 64 * rank)
    acp.barrier(living)
    assert acp.fetch_add8(acp.query_starter_ga(rank), 0) == len(living)
    assert len(counts) == len(keys) == len(bag) == len(living)
    assert bytes(space.read(bytearray(64 * acp.procs()), 0)).count(b"x") == 64 * len(living)
    acp.sync()
    info.main([])
    acp.sync()
    acp.finalize()
    Path(folder, f"{rank} survived").touch()


def joined(folder):
    """Return the processes by their ranks when all have joined."""
    until(lambda: len([*folder.iterdir()]) == 5, lambda: [*folder.iterdir()])
    return {int(rank): int(pid) for rank, pid in (path.name.split() for path in folder.iterdir())}


@pytest.mark.parametrize("sizes", [SIZES, OF_BOTH], ids=["same MPI", "other MPI"])
@pytest.mark.parametrize("whom", ["worker", "launcher"])
@pytest.mark.parametrize("road", ["any", pytest.param("nodes", marks=pytest.mark.slow)])
def test_the_others_go_on_when_a_group_is_killed(groups, meeting, tmp_path, sizes, whom, road):
    folder = tmp_path / "here"
    folder.mkdir()
    other = launch.other_python() if sizes is OF_BOTH else None
    mpi = launch.mpi_name(other or sys.executable)
    place = meeting(expected(sizes)) | launch.ROADS[road]
    jobs = groups(sizes, work_until_a_group_is_lost, folder, env=place)
    (doomed,) = jobs["doomed"]
    pids = joined(folder)
    os.kill(pids[3] if whom == "worker" else doomed.pid, signal.SIGKILL)
    assert doomed.wait() != 0
    if whom == "launcher" and mpi == "openmpi":
        # its ranks do not notice: the group lives on, and the others with it, until they end, too
        for rank in (2, 3):
            with contextlib.suppress(ProcessLookupError):  # unless they did
                os.kill(pids[rank], signal.SIGKILL)
    for name in ("air", "solo"):
        for job in jobs[name]:
            assert job.wait() == 0, said(jobs)
    survivors = {path.name for path in folder.iterdir() if path.name.endswith("survived")}
    assert survivors == {f"{rank} survived" for rank in (0, 1, 4)}
    measured = re.findall(r"^  (\d) +(\d) .* us$", jobs["air"][0].output, re.MULTILINE)
    assert measured == [*itertools.product("014", repeat=2)]
    nothing_stays(jobs)


# A group does not join ---------------------------------------------------------------------------


def come_in_vain():
    try:
        acp.init()
    except Exception as error:
        print(type(error).__name__, error, flush=True)
        assert not acp.is_initialized()
        sys.exit(3)


def ends_in_vain(jobs, *words):
    for group in jobs.values():
        for job in group:
            assert job.wait() == 3, job.output
            for word in words:
                assert word in job.output, job.output
    nothing_stays(jobs)


def fail_and_try_again():
    from mpi4py import MPI

    made = []

    class Watched(MPI.Intracomm):
        def Idup(self, info=None):
            comm, request = super().Idup(info)
            made.append(comm)
            return comm, request

    last = MPI.COMM_WORLD.rank == MPI.COMM_WORLD.size - 1
    wrong = {
        -5: "is negative",
        2**70: "is more bytes",
        1.5: "is not a number",
        "1G": "is not a number",
    }
    for (value, text), name in itertools.product(wrong.items(), ("heap_size", "starter_size")):
        kind = TypeError if "not a number" in text else ValueError
        with pytest.raises(kind, match=re.escape(f"init: {name}={value!r} {text}")):
            acp.init(Watched(MPI.COMM_WORLD), **{name: value if last else None})
    assert made == [MPI.COMM_NULL] * 8
    with acp.init():
        acp.sync()


def test_what_fails_on_one_fails_on_all_and_may_be_tried_again(start):
    job = start([*launch.mpiexec(3), *launch.program(fail_and_try_again)])
    assert job.wait() == 0, job.output


def test_a_wrong_address_names_the_variable(start):
    env = {"ACP_MPI": "0", "ACP_RENDEZVOUS": "here", "ACP_SECRET": "0" * 64}
    job = start(launch.program(come_in_vain), env)
    assert job.wait() == 3
    assert "ACP_RENDEZVOUS: address 'here': expected HOST:PORT" in job.output


def test_a_group_that_never_comes_is_named_to_all(groups, tmp_path):
    path = tmp_path / "secret"
    with Server(secret.create(path), expected(SIZES)) as server:
        place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(path)}
        there = {name: SIZES[name] for name in ("air", "solo")}
        jobs = groups(there, come_in_vain, env=place)
        announced(server, 3)
        run_out_of_time(server)
        ends_in_vain(
            jobs,
            "TimeoutError",
            "group 'air' of 2 (complete) from",
            "group 'solo' of 1 (complete) from",
            f"pid {jobs['solo'][0].pid}",
            "missing: all 2 ranks of group 'doomed'",
        )


def test_a_group_that_ended_before_it_joined_is_named_to_all_at_once(groups, tmp_path):
    path = tmp_path / "secret"
    with Server(secret.create(path), expected(SIZES), timeout=600) as server:
        place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(path)}
        jobs = groups({"solo": SIZES["solo"]}, come_in_vain, env=place)
        until(lambda: any(group.ranks for group in server.arrivals()), lambda: said(jobs))
        server.fail("doomed", "its launcher ended with status 9")
        jobs |= groups({"air": SIZES["air"]}, come_in_vain, env=place)  # too late already
        ends_in_vain(
            jobs, "group 'doomed' ended before it had joined: its launcher ended with status 9"
        )


def test_a_group_with_another_secret_is_refused_and_the_others_wait_on(groups, tmp_path, all_pass):
    for name in ("secret", "other"):
        secret.create(tmp_path / name)
    with Server(secret.read(tmp_path / "secret"), {"air": 2, "solo": 1}) as server:
        place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(tmp_path / "secret")}
        stranger = place | {"ACP_SECRET_FILE": str(tmp_path / "other")}
        jobs = groups({"solo": ("acp", 1)}, join_and_leave, env=place)
        ends_in_vain(
            groups({"air": ("mpi", 2)}, come_in_vain, env=stranger), "PermissionError", "secret"
        )
        all_pass(jobs | groups({"air": ("mpi", 2)}, join_and_leave, env=place))


def test_a_wrong_number_of_ranks_is_named(groups, tmp_path):
    path = tmp_path / "secret"
    with Server(secret.create(path), {"air": 3, "solo": 1}) as server:
        place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(path)}
        ends_in_vain(
            groups({"air": ("mpi", 2)}, come_in_vain, env=place),
            "group 'air' comes with 2 ranks: expected 3",
        )


def test_a_rank_that_comes_twice_is_told_who_was_first(groups, tmp_path, all_pass):
    path = tmp_path / "secret"
    with Server(secret.create(path), {"solo": 1, "air": 2}) as server:
        place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(path)}
        first = groups({"solo": ("acp", 1)}, join_and_leave, env=place)
        until(lambda: server.arrivals()[0].complete, lambda: said(first))
        again = groups({"solo": ("acp", 1)}, come_in_vain, env=place)
        ends_in_vain(again, "rank 0 of group 'solo' has come already", f"{first['solo'][0].pid}")
        all_pass(first | groups({"air": ("mpi", 2)}, join_and_leave, env=place))


# The rendezvous is lost --------------------------------------------------------------------------


def join_and_leave(folder=None):
    with acp.init():
        acp.fetch_add8(acp.query_starter_ga(0), 1)
        acp.sync()
        assert acp.fetch_add8(acp.query_starter_ga(0), 0) == acp.procs()
        if folder:
            Path(folder, f"{acp.rank()} in").touch()
            until(lambda: Path(folder, "the rendezvous is gone").exists(), lambda: "it stays")
        assert sum(acp.allgather(1)) == acp.procs()
        acp.sync()


@pytest.fixture
def serve(start, tmp_path):
    """serve(groups) runs a rendezvous as a program; returns its job and what groups need."""

    def run(sizes):
        path = tmp_path / "secret"
        secret.create(path)
        command = [sys.executable, "-P", "-m", "acp_mpi.launch.macprun", "serve", "--groups", sizes,
                   "--secret-file", str(path)]  # fmt: skip
        job = start(command)
        until(lambda: "\n" in job.output or not job.running, lambda: job.output)
        address = job.output.strip().removeprefix("ACP_RENDEZVOUS=")
        return job, {"ACP_RENDEZVOUS": address, "ACP_SECRET_FILE": str(path)}

    return run


def say_when_announced():
    """Until then a member takes a rendezvous that breaks off for one that will come again."""
    receive = handshake.receive_message

    def wait(*arguments):
        print("announced", flush=True)
        return receive(*arguments)

    handshake.receive_message = wait
    come_in_vain()


def test_a_rendezvous_that_is_killed_ends_the_wait_of_all(groups, serve):
    server, place = serve("air=2,solo=1,doomed=2")
    jobs = groups({"air": ("mpi", 2), "solo": ("acp", 1)}, say_when_announced, env=place)
    until(lambda: said(jobs).count("announced") == 2, lambda: said(jobs))
    os.kill(server.pid, signal.SIGKILL)
    ends_in_vain(jobs, "could not join through the rendezvous at", place["ACP_RENDEZVOUS"])


def test_the_job_outlives_the_rendezvous(groups, serve, tmp_path, all_pass):
    folder = tmp_path / "here"
    folder.mkdir()
    server, place = serve("air=2,solo=1")
    jobs = groups({"air": ("mpi", 2), "solo": ("acp", 1)}, join_and_leave, folder, env=place)
    until(lambda: len([*folder.iterdir()]) == 3, lambda: said(jobs))
    assert server.wait() == 0
    (folder / "the rendezvous is gone").touch()
    all_pass(jobs)
