"""Groups that span hosts: ranks of one host share memory, whatever their group is."""

import launch
import pytest

import acp_mpi as acp
from acp_mpi.job.rendezvous import secret

pytestmark = pytest.mark.hosts


def all_pass(jobs):
    for job in jobs:
        assert job.wait() == 0, "\n".join(job.output for job in jobs)


def live_together():
    import socket

    acp.init()
    rank, procs, here = acp.rank(), acp.procs(), socket.gethostname()
    hosts = acp.allgather(here)
    assert len(set(hosts)) > 1
    for other in range(procs):
        starter = acp.query_starter_ga(other)
        if hosts[other] == here:
            assert acp.query_address(starter)
        else:
            with pytest.raises(acp.AddressError, match="another node"):
                acp.query_address(starter)
        acp.put(starter + 8 * rank, (rank + 1).to_bytes(8, "little"))
    made = (acp.Map(), acp.Counter(rank=procs - 1)) if rank == 0 else None
    table, counter = acp.bcast(made)
    for i in counter.take(200):
        table[i] = rank
    acp.sync()
    assert sorted(table) == list(range(200))
    mine = acp.get(acp.query_starter_ga(rank), bytearray(8 * procs))
    assert list(memoryview(mine).cast("q")) == list(range(1, procs + 1))
    acp.sync()
    acp.finalize()


@pytest.mark.smoke
def test_a_group_with_mpi_and_one_without_span_the_same_hosts(three_hosts, serve, start):
    place = serve(three_hosts, {"ocean": 3, "ice": 3})
    ice = place | {"ACP_GROUP": "ice", "ACP_MPI": "0", "ACP_GROUP_SIZE": "3"}
    jobs = [
        start(host.command(launch.program(live_together)), ice | {"ACP_GROUP_RANK": str(rank)})
        for rank, host in enumerate(three_hosts)
    ]
    ocean = [*launch.mpiexec(3, network=three_hosts), *launch.program(live_together)]
    all_pass([*jobs, start(ocean, place | {"ACP_GROUP": "ocean"})])


def test_a_table_of_ports_joins_processes_of_several_hosts(three_hosts, start, tmp_path):
    """Two of them on one host; the first row is on another than this test."""
    places = [*three_hosts, three_hosts[1]]
    following = [*places[1:], places[0]]
    rows = [
        f"{rank} 4 {4000 + rank} {4000 + (rank + 1) % 4} {host.name} {after.name}\n"
        for rank, (host, after) in enumerate(zip(places, following, strict=True))
    ]
    path = tmp_path / "Portfile"
    path.write_text("".join(rows))
    secret.create(f"{path}.secret")
    program = launch.program(live_together)
    all_pass(
        [
            start(host.command(program), {"ACP_MPI": "0", "ACP_MULTIRUN": f"{path} {rank}"})
            for rank, host in reversed(list(enumerate(places)))
        ]
    )
