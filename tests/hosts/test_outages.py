"""Wires that break, hosts that stop: short ones are survived, lasting ones are PeerLostError."""

import time
from pathlib import Path

import launch
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.hosts

SIZE = 200_000
OUTAGE = 2.0  # seconds; nothing is measured by it
SHORT = {"ACP_PEER_TIMEOUT": "3"}
LIMIT = 60.0


def storm(folder):
    """Copy and count between all ranks, in rounds, until there is a file named stop."""
    acp.init()
    rank, procs = acp.rank(), acp.procs()
    source = acp.zeros(SIZE, "u1")
    room = acp.zeros((2, procs, SIZE), "u1")  # copied by its owner; by another rank
    rooms = acp.allgather(acp.query_ga(room))
    places = acp.allgather(acp.query_ga(source))
    one, two = (rank + 1) % procs, (rank + 2) % procs
    step, go_on = 0, True
    while go_on:
        step += 1
        source[:] = (37 * rank + step) % 251
        acp.sync()
        acp.copy(rooms[two] + (procs + one) * SIZE, places[one], SIZE)
        for other in range(procs):
            acp.copy(rooms[other] + rank * SIZE, places[rank], SIZE)
            acp.add8(acp.GA_NULL, acp.query_starter_ga(other), 1)
        acp.sync()
        for other in range(procs):
            assert (room[0, other] == (37 * other + step) % 251).all()
        before = (rank - 1) % procs
        assert (room[1, before] == (37 * before + step) % 251).all()
        Path(folder, f"{rank} storms").write_text(str(step))
        go_on = acp.bcast(rank == 0 and not Path(folder, "stop").exists())
    # Exactly once, whatever was sent again.
    assert acp.fetch_add8(acp.query_starter_ga(rank), 0) == procs * step
    acp.finalize()


def storm_of_messages(folder):
    """Send messages of all lengths between all ranks until there is a file named stop."""
    acp.init()
    rank, procs = acp.rank(), acp.procs()
    others = [other for other in range(procs) if other != rank]
    sizes = (8, 3000, 70_000, SIZE * 3)
    room = bytearray(max(sizes))
    step, go_on = 0, True
    while go_on:
        step += 1
        sends = [
            acp.isend(bytes([(37 * rank + step) % 251]) * size, other, step)
            for other in others
            for size in sizes
        ]
        for source in others:
            for size in sizes:  # in the order of their sends
                status = acp.Status()
                acp.recv(room, source, step, status)
                assert status.size == size
                assert room[:size] == bytes([(37 * source + step) % 251]) * size
        acp.waitall(sends)
        Path(folder, f"{rank} storms").write_text(str(step))
        go_on = acp.bcast(rank == 0 and not Path(folder, "stop").exists())
    assert acp.iprobe() is None  # nothing came twice
    acp.finalize()


def together(jobs):
    return "\n".join(job.output for job in jobs)


def steps(folder, ranks):
    """Return how many rounds each rank has done."""
    files = [folder / f"{rank} storms" for rank in range(ranks)]
    return [int(file.read_text() or 0) if file.exists() else 0 for file in files]


def calm(folder, jobs, ranks):
    """Let the storm go on for a few rounds, then end it, and see it end well."""
    before = steps(folder, ranks)
    launch.until(lambda: min(steps(folder, ranks)) >= max(before) + 3, *jobs, limit=LIMIT)
    (folder / "stop").touch()
    for job in jobs:
        assert job.wait() == 0, together(jobs)


def storming(folder, jobs, ranks):
    launch.until(lambda: min(steps(folder, ranks)) >= 2, *jobs, limit=LIMIT)


# Short outages --------------------------------------------------------------------------------


def cut(network, host, way):
    network.pull(host) if way == "cable" else host.down()


def mend(network, host, way):
    network.plug(host) if way == "cable" else host.up()


@pytest.mark.parametrize(("victim", "way"), [(0, "cable"), (2, "interface")])
def test_a_short_outage_is_survived(three_hosts, on_each_host, tmp_path, victim, way):
    host = three_hosts[victim]
    jobs = on_each_host(three_hosts, launch.program(storm, tmp_path))
    storming(tmp_path, jobs, 3)
    cut(three_hosts, host, way)
    before = host.counters()[0]
    time.sleep(OUTAGE)
    assert host.counters()[0] == before
    mend(three_hosts, host, way)
    calm(tmp_path, jobs, 3)


@pytest.mark.parametrize("way", ["cable", "interface"])
def test_messages_survive_a_short_outage(three_hosts, on_each_host, tmp_path, way):
    jobs = on_each_host(three_hosts, launch.program(storm_of_messages, tmp_path))
    storming(tmp_path, jobs, 3)
    cut(three_hosts, three_hosts[1], way)
    time.sleep(OUTAGE)
    mend(three_hosts, three_hosts[1], way)
    three_hosts[2].reset_connections()
    calm(tmp_path, jobs, 3)


@pytest.mark.parametrize("way", ["cable", pytest.param("interface", marks=pytest.mark.slow)])
def test_an_mpi_job_survives_a_short_outage(two_hosts, start, tmp_path, way):
    job = start([*launch.mpiexec(2, network=two_hosts), *launch.program(storm, tmp_path)])
    storming(tmp_path, [job], 2)
    cut(two_hosts, two_hosts[1], way)
    time.sleep(OUTAGE)
    mend(two_hosts, two_hosts[1], way)
    calm(tmp_path, [job], 2)


@pytest.mark.slow
def test_many_short_outages_are_survived(three_hosts, on_each_host, tmp_path):
    jobs = on_each_host(three_hosts, launch.program(storm, tmp_path))
    storming(tmp_path, jobs, 3)
    for index in range(12):
        host, way = three_hosts[index % 3], ("cable", "interface")[index % 2]
        cut(three_hosts, host, way)
        time.sleep(0.1)
        mend(three_hosts, host, way)
        time.sleep(0.1)
    calm(tmp_path, jobs, 3)


def test_links_outlive_their_connections(three_hosts, on_each_host, tmp_path):
    jobs = on_each_host(three_hosts, launch.program(storm, tmp_path))
    storming(tmp_path, jobs, 3)
    if not three_hosts[0].reset_connections():
        pytest.skip("this kernel cannot break connections (CONFIG_INET_DIAG_DESTROY)")
    for index in range(30):
        launch.until(three_hosts[index % 3].reset_connections, *jobs)
    calm(tmp_path, jobs, 3)


def test_a_host_frozen_for_a_while_goes_on(three_hosts, on_each_host, tmp_path):
    jobs = on_each_host(three_hosts, launch.program(storm, tmp_path))
    storming(tmp_path, jobs, 3)
    three_hosts[1].freeze()
    time.sleep(OUTAGE)
    three_hosts[1].thaw()
    calm(tmp_path, jobs, 3)


def test_links_move_to_the_other_interface_of_a_host(connect, on_each_host, tmp_path):
    network = connect(2, interfaces=2)
    jobs = on_each_host(network, launch.program(storm, tmp_path), SHORT)
    storming(tmp_path, jobs, 2)
    network.pull(network[1], interface=0)
    before = network[1].counters(1)[0]
    calm(tmp_path, jobs, 2)
    assert network[1].counters(1)[0] - before > SIZE


# Lasting ones ---------------------------------------------------------------------------------


def lose_some(folder, victim):
    """Storm until somebody is lost; among the living go on without the victim."""
    victim = int(victim)
    with pytest.raises(acp.PeerLostError, match="refresh") as caught:
        storm(folder)
    if acp.rank() == victim:
        assert caught.value.rank != victim
        while True:  # copies that were under way end after the call that heard of it first
            try:
                acp.complete()
            except acp.PeerLostError as error:
                assert error.rank != victim  # noqa: PT017
            else:
                break
        Path(folder, f"{victim} is alone").touch()
        return
    assert caught.value.rank == victim
    while True:
        try:
            acp.complete()
            acp.sync()
        except acp.PeerLostError as error:
            assert error.rank == victim  # noqa: PT017
            acp.refresh()
        else:
            break
    assert acp.ranks() == [rank for rank in range(acp.procs()) if rank != victim]
    for rank in acp.ranks():
        acp.fetch_add8(acp.query_starter_ga(rank), 1)
    acp.sync()
    Path(folder, f"{acp.rank()} survived").touch()
    acp.finalize()


def survivors_end_well(jobs, victim, folder):
    for rank, job in enumerate(jobs):
        if rank != victim:
            assert job.wait() == 0, together(jobs)
            assert (folder / f"{rank} survived").exists()


@pytest.mark.parametrize(("victim", "way"), [(0, "cable"), (2, "interface")])
def test_a_host_that_is_cut_off_for_good_is_lost(three_hosts, on_each_host, tmp_path, victim, way):
    jobs = on_each_host(three_hosts, launch.program(lose_some, tmp_path, victim), SHORT)
    storming(tmp_path, jobs, 3)
    cut(three_hosts, three_hosts[victim], way)
    survivors_end_well(jobs, victim, tmp_path)
    assert jobs[victim].wait() == 0, jobs[victim].output
    assert (tmp_path / f"{victim} is alone").exists()


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_host_that_is_frozen_for_good_is_lost(three_hosts, on_each_host, tmp_path, victim):
    jobs = on_each_host(three_hosts, launch.program(lose_some, tmp_path, victim), SHORT)
    storming(tmp_path, jobs, 3)
    three_hosts[victim].freeze()
    survivors_end_well(jobs, victim, tmp_path)
    three_hosts[victim].thaw()
    assert jobs[victim].wait() == 0, jobs[victim].output
    assert (tmp_path / f"{victim} is alone").exists()
