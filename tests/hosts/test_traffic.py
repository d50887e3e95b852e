"""Jobs of acp_mpi across hosts: who reaches whom, and over which wire the bytes go."""

import contextlib
import os
import socket
from pathlib import Path

import launch
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.hosts

BIG = 2**26


def all_pass(jobs):
    for job in jobs:
        assert job.wait() == 0, "\n".join(job.output for job in jobs)


def passed(interface):
    """Return the bytes that an interface of this host has received and sent."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == interface:
            fields = numbers.split()
            return int(fields[0]), int(fields[8])
    raise LookupError(interface)


# Everybody with everybody ---------------------------------------------------------------------


def meet():
    """Copy from every rank to every rank by every rank, of global and of private memory."""
    acp.init()
    rank, procs, size = acp.rank(), acp.procs(), 300_000
    source = bytearray([rank + 1]) * size
    key = acp.register_memory(source)
    sources = acp.allgather(acp.query_ga(key))
    room = acp.zeros((procs, procs, size), "u1")  # who copied, from whom
    rooms = acp.allgather(acp.query_ga(room))
    for src in range(procs):
        for dst in range(procs):
            acp.copy(rooms[dst] + (rank * procs + src) * size, sources[src], size)
            acp.add8(acp.GA_NULL, acp.query_starter_ga(dst), 1)
    acp.sync()
    for src in range(procs):
        assert (room[:, src] == src + 1).all()
    assert acp.fetch_add8(acp.query_starter_ga(rank), 0) == procs * procs
    acp.sync()
    key.close()
    acp.finalize()


@pytest.mark.parametrize(("hosts", "ranks"), [(2, 2), (2, 4), (3, 3), (4, 4)])
def test_every_rank_copies_between_all_hosts(connect, passes, hosts, ranks):
    passes([*launch.mpiexec(ranks, network=connect(hosts)), *launch.program(meet)])


@pytest.mark.parametrize("hosts", [2, 4])
def test_processes_without_mpi_copy_between_all_hosts(connect, on_each_host, hosts):
    all_pass(on_each_host(connect(hosts), launch.program(meet)))


def test_hosts_with_several_addresses_reach_each_other(connect, on_each_host):
    all_pass(on_each_host(connect(3, interfaces=2, ipv6=True), launch.program(meet)))


def test_an_address_that_cannot_be_used_yet_is_left_out(connect, on_each_host):
    network = connect(2, ipv6=True)
    for host in network:  # it is looked for on the wire, for longer than this test runs
        host.run("sh", "-c", "echo 250 > /proc/sys/net/ipv6/conf/eth0/dad_transmits")
        address = f"fd77:0:0:0::{host.number}/64 dev eth0"
        host.configure(f"addr del {address}", f"addr add {address}")
        assert "tentative" in host.run("ip", "-6", "addr", "show", "dev", "eth0", "scope", "global")
    all_pass(on_each_host(network, launch.program(meet)))


def test_an_mpi_group_and_a_process_on_another_host_are_one_job(connect, serve, start):
    network = connect(3)
    *mpi, other = network
    place = serve(network, {"ocean": 2, "solo": 1})
    network.hosts = mpi
    ocean = [*launch.mpiexec(2, network=network), *launch.program(meet)]
    all_pass(
        [
            start(ocean, place | {"ACP_GROUP": "ocean"}),
            start(other.command(launch.program(meet)),
                  place | {"ACP_GROUP": "solo", "ACP_MPI": "0"}),
        ]
    )  # fmt: skip


# Which way ------------------------------------------------------------------------------------


def copy_for_others():
    """Rank 0 copies from the memory of rank 1 to that of rank 2."""
    acp.init()
    memory = acp.zeros(BIG, "u1")
    memory[:] = acp.rank() + 1
    places = acp.allgather(acp.query_ga(memory))
    acp.sync()
    before = passed("eth0")
    acp.sync()
    if acp.rank() == 0:
        acp.complete(acp.copy(places[2], places[1], BIG))
    acp.sync()
    received, sent = (now - then for now, then in zip(passed("eth0"), before, strict=True))
    acp.sync()
    assert (memory == (1, 2, 2)[acp.rank()]).all()
    assert (sent > BIG) == (acp.rank() == 1), sent
    assert (received > BIG) == (acp.rank() == 2), received
    if acp.rank() == 0:
        assert received + sent < BIG / 100, f"{received} bytes came, {sent} went"
    acp.finalize()


def test_a_third_party_copy_does_not_pass_the_host_of_its_caller(three_hosts, passes):
    passes([*launch.mpiexec(3, network=three_hosts), *launch.program(copy_for_others)])


def put_to_the_other():
    acp.init()
    memory = acp.zeros(BIG // 8, "u1")
    places = acp.allgather(acp.query_ga(memory))
    if acp.rank() == 0:
        acp.put(places[1], bytes(BIG // 8))
    acp.sync()
    acp.finalize()


@pytest.mark.parametrize("interface", [0, 1])
def test_links_keep_to_the_interfaces_they_are_given(connect, on_each_host, interface):
    network = connect(2, interfaces=2)
    before = [network[1].counters(k)[0] for k in range(2)]
    given = {"ACP_INTERFACES": f"eth{interface}"}
    all_pass(on_each_host(network, launch.program(put_to_the_other), given))
    received = [network[1].counters(k)[0] - before[k] for k in range(2)]
    assert received[interface] > BIG // 8
    assert received[1 - interface] < 2**16


def put_by_color():
    """Each color has a link of its own, and that an interface."""
    acp.init()
    memory = bytearray(BIG // 8)
    with acp.register_memory(memory, color=0) as even, acp.register_memory(memory, color=1) as odd:
        places = acp.allgather([acp.query_ga(even), acp.query_ga(odd)])
        for color in range(2):
            acp.sync()
            before = [passed(f"eth{k}")[1] for k in range(2)]
            if acp.rank() == 0:
                acp.put(places[1][color], bytes(BIG // 8))
                sent = [passed(f"eth{k}")[1] - before[k] for k in range(2)]
                assert sent[color] > BIG // 8, sent
                assert sent[1 - color] < BIG // 80, sent
        acp.sync()
    acp.finalize()


def test_each_color_has_its_interface(connect, on_each_host):
    all_pass(on_each_host(connect(2, interfaces=2), launch.program(put_by_color)))


# How fast the system lets it go ---------------------------------------------------------------


def the_rules_of_links():
    """Print what rules the pace of each link of this process."""
    acp.init()
    acp.put(acp.query_starter_ga(1 - acp.rank()), bytes(8))
    acp.sync()
    elsewhere = os.environ["ACP_RENDEZVOUS"].partition(":")[0]
    for entry in list(os.scandir("/proc/self/fd")):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(entry.name))) as end:
            if end.getpeername()[0] not in (elsewhere, "127.0.0.1"):
                rule = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
                print("rule", rule.rstrip(b"\0").decode(), flush=True)
    acp.sync()
    acp.finalize()


@pytest.mark.parametrize(("delay", "rule"), [(0.0, "cubic"), (0.02, "bbr")], ids=["near", "far"])
def test_bbr_rules_the_pace_of_links_over_long_paths_only(two_hosts, on_each_host, delay, rule):
    for host in two_hosts:
        try:
            host.run("sh", "-c", "echo bbr > /proc/sys/net/ipv4/tcp_congestion_control")
        except OSError:
            pytest.skip("this kernel has no BBR (CONFIG_TCP_CONG_BBR)")
        two_hosts.shape(host, delay=delay)
    jobs = on_each_host(two_hosts, launch.program(the_rules_of_links))
    all_pass(jobs)
    rules = [line.split()[-1] for job in jobs for line in job.output.splitlines() if "rule" in line]
    assert rules
    assert set(rules) == {rule}
