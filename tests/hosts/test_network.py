"""What the hosts of the tests are, and that nothing of them stays."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import launch
import pytest
from hosts.network import Network

pytestmark = pytest.mark.hosts

PORT = 5000
LIMIT = 30.0  # seconds for what takes milliseconds


def receiver(host, address):
    """Return a datagram socket that receives at an address of a host."""
    end = host.open_socket(socket.SOCK_DGRAM)
    end.settimeout(LIMIT)
    end.bind((address, PORT))
    return end


def connection(source, target):
    """Return both ends of a TCP connection between two hosts."""
    with target.open_socket() as server:
        server.bind((target.address, 0))
        server.listen()
        server.settimeout(LIMIT)
        near = source.open_socket()
        near.settimeout(LIMIT)
        near.connect(server.getsockname())
        far, _ = server.accept()
        far.settimeout(LIMIT)
    return near, far


def stream(near, far, size):
    """Send `size` bytes over a connection and receive them."""
    sent = received = 0
    near.setblocking(False)
    while received < size:
        writers = [near] if sent < size else []
        readable, writable, _ = select.select([far], writers, [], LIMIT)
        assert readable or writable, f"nothing moves after {received} of {size} bytes"
        if writable:
            sent += near.send(bytes(min(size - sent, 2**20)))
        if readable:
            received += len(far.recv(2**20))


def echo(near, far):
    near.settimeout(LIMIT)
    near.sendall(b"ping")
    assert far.recv(4) == b"ping"


# Hosts ----------------------------------------------------------------------------------------


def test_each_host_has_its_own_name_and_knows_the_others(three_hosts):
    names = [host.run("uname", "-n").strip() for host in (three_hosts.switch, *three_hosts)]
    assert len({*names, socket.gethostname()}) == 5
    for host in three_hosts:
        for other in (three_hosts.switch, *three_hosts):
            assert host.run("getent", "hosts", other.name).split()[0] == other.address


@pytest.mark.smoke
def test_hosts_reach_each_other(three_hosts):
    for source in three_hosts:
        for target in three_hosts:
            near, far = connection(source, target)
            with near, far:
                echo(near, far)


def test_what_listens_on_a_host_s_loopback_is_not_reached_from_another(two_hosts):
    a, b = two_hosts
    with b.open_socket() as server, a.open_socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        for address in ("127.0.0.1", b.address):
            with pytest.raises(ConnectionRefusedError):
                client.connect((address, port))


def test_hosts_see_their_own_interfaces_only(connect):
    (host,) = connect(1, interfaces=2)
    assert sorted(os.listdir(f"/proc/{host.pid}/root/sys/class/net")) == ["eth0", "eth1", "lo"]


def test_a_host_may_have_several_addresses(connect):
    a, b = connect(2, interfaces=2, ipv6=True)
    assert len(b.addresses) == 2
    for address in (*b.addresses, f"fd77::{b.number}", f"fd77:0:0:1::{b.number}"):
        script = f"import socket; socket.create_connection(('{address}', {PORT}), {LIMIT})"
        listen = b.command([sys.executable, "-c", LISTEN, address, str(PORT)])
        with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout.readline() == "listening\n"
            a.run(sys.executable, "-c", script)
            assert server.wait(LIMIT) == 0


LISTEN = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.create_server((sys.argv[1], int(sys.argv[2])), family=family) as server:
    print("listening", flush=True)
    server.accept()[0].close()
"""


def test_two_networks_with_the_same_addresses_do_not_meet(connect):
    first, second = connect(2), connect(2)
    assert [host.address for host in first] == [host.address for host in second]
    with receiver(first[1], first[1].address) as here, receiver(second[1], first[1].address) as far:
        with first[0].open_socket(socket.SOCK_DGRAM) as sender:
            sender.sendto(b"here", here.getsockname())
        assert here.recv(100) == b"here"
        far.setblocking(False)
        with pytest.raises(BlockingIOError):
            far.recv(100)


# Counting and disturbing ----------------------------------------------------------------------


def test_counters_count_what_passes_an_interface(three_hosts):
    a, b, _ = three_hosts
    before = [host.counters() for host in three_hosts]
    near, far = connection(a, b)
    with near, far:
        stream(near, far, 2**23)
    received, sent = zip(
        *(
            [now - then for now, then in zip(host.counters(), old, strict=True)]
            for host, old in zip(three_hosts, before, strict=True)
        ),
        strict=True,
    )
    assert 2**23 < sent[0] < 1.1 * 2**23
    assert 2**23 < received[1] < 1.1 * 2**23
    assert max(received[0], sent[1]) < 2**20
    assert max(received[2], sent[2]) < 2**16


@pytest.mark.parametrize(
    "shape", [{"delay": 1.0}, {"rate": 20_000}, {"delay": 0.5, "rate": 40_000}], ids=str
)
def test_what_is_sent_first_over_a_slow_interface_arrives_last(connect, shape):
    network = connect(2, interfaces=2)
    a, b = network
    network.shape(a, **shape)
    with receiver(b, "0.0.0.0") as inbox, a.open_socket(socket.SOCK_DGRAM) as sender:
        sender.sendto(b"wakes ARP up", (b.addresses[0], PORT))
        sender.sendto(b"wakes ARP up", (b.addresses[1], PORT))
        for _ in range(2):
            inbox.recv(2000)
        for index in range(20):
            sender.sendto(bytes([index]) * 1000, (b.addresses[0], PORT))
        sender.sendto(b"fast", (b.addresses[1], PORT))
        arrived = [inbox.recv(2000)[:4] for _ in range(21)]
    slow = [data for data in arrived if data != b"fast"]
    assert slow == [bytes([index]) * 4 for index in range(20)], "order and contents are kept"
    assert arrived[-1] != b"fast"


def test_a_share_of_the_frames_is_lost_and_tcp_gets_over_it(two_hosts):
    a, b = two_hosts
    count = 400
    near, far = connection(a, b)
    two_hosts.shape(a, loss=0.25)
    with receiver(b, b.address) as inbox, a.open_socket(socket.SOCK_DGRAM) as sender:
        for index in range(count):
            sender.sendto(index.to_bytes(2), inbox.getsockname())
        with near, far:
            stream(near, far, 2**18)
        inbox.setblocking(False)
        arrived = 0
        try:
            while inbox.recv(100):
                arrived += 1
        except BlockingIOError:
            pass
    assert count // 2 < arrived < count


def test_a_shaped_wire_can_be_made_plain_again(two_hosts):
    a, b = two_hosts
    near, far = connection(a, b)
    with near, far:
        two_hosts.shape(a, loss=1.0)
        before = b.counters()[0]
        near.sendall(b"ping")
        assert b.counters()[0] == before
        two_hosts.shape(a, delay=0.01)
        assert far.recv(4) == b"ping"
        two_hosts.shape(a)
        stream(near, far, 2**22)


@pytest.mark.parametrize("shape", [{}, {"delay": 0.01}], ids=["plain", "slow"])
@pytest.mark.parametrize("cut", ["cable", "interface"])
def test_a_connection_survives_that_a_host_is_cut_off(two_hosts, cut, shape):
    a, b = two_hosts
    two_hosts.shape(a, **shape)
    near, far = connection(a, b)
    with near, far:
        echo(near, far)
        if cut == "cable":
            two_hosts.pull(a)
        else:
            a.down()
        before = b.counters()[0]
        near.sendall(b"ping")
        assert b.counters()[0] == before
        if cut == "cable":
            two_hosts.plug(a)
        else:
            a.up()
        assert far.recv(4) == b"ping"


def test_connections_can_be_broken(three_hosts):
    a, b, c = three_hosts
    near, far = connection(a, b)
    other, end = connection(b, c)
    with near, far, other, end:
        if not a.reset_connections():
            pytest.skip("this kernel cannot break connections (CONFIG_INET_DIAG_DESTROY)")
        for side in (near, far):
            with pytest.raises(ConnectionError):
                side.recv(1)
        echo(other, end)


def test_addresses_come_back_with_an_interface(connect):
    network = connect(2, ipv6=True)
    a, b = network
    a.down()
    a.up()
    assert a.run("ip", "-6", "route", "get", f"fd77::{b.number}")
    near, far = connection(a, b)
    with near, far:
        echo(near, far)


ECHO = "while read line; do echo $line; done"


def test_a_frozen_host_does_nothing_until_it_thaws(two_hosts):
    a, b = two_hosts
    with (
        subprocess.Popen(a.command(["sh", "-c", ECHO]), stdin=-1, stdout=-1, bufsize=0) as mine,
        subprocess.Popen(b.command(["sh", "-c", ECHO]), stdin=-1, stdout=-1, bufsize=0) as other,
        contextlib.ExitStack() as stack,
    ):
        for process in (mine, other):
            process.stdin.write(b"ready\n")
            assert process.stdout.readline() == b"ready\n"
        assert a.processes() == [mine.pid]
        stack.callback(a.thaw)
        a.freeze()
        mine.stdin.write(b"work\n")
        other.stdin.write(b"work\n")
        assert other.stdout.readline() == b"work\n"
        assert state(mine.pid) == "T"
        a.thaw()
        assert mine.stdout.readline() == b"work\n"


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# Cleaning up ----------------------------------------------------------------------------------


def sleeper(host):
    """Start a process on a host that ends only when it is killed; it has arrived there."""
    process = subprocess.Popen(host.command(["sh", "-c", "echo; read end"]), stdin=-1, stdout=-1)
    process.stdout.readline()
    return process


def spaces_of(pids, stack):
    """Return the namespaces of processes; no later one gets their numbers until `stack` closes."""
    held = [os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) for pid in pids]
    for descriptor in held:
        stack.callback(os.close, descriptor)
    return {os.fstat(descriptor).st_ino for descriptor in held}


def living_in(spaces):
    """Return the processes that live in any of these namespaces."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}/ns/net").st_ino in spaces:
                found.append(int(name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def test_nothing_stays_of_a_network_after_an_error(connect):
    own = connect(1)  # skips where there are none
    with contextlib.ExitStack() as stack:
        with pytest.raises(ZeroDivisionError), Network(2) as network:  # noqa: PT012
            spaces = spaces_of((host.pid for host in (network.switch, *network)), stack)
            assert len(spaces) == 3
            network.shape(network[0], delay=0.1)
            processes = [stack.enter_context(sleeper(host)) for host in network]
            assert [host.processes() for host in network] == [[p.pid] for p in processes]
            network[0].freeze()
            1 / 0  # noqa: B018
        assert not living_in(spaces)
    assert [process.wait(LIMIT) for process in processes] == [-signal.SIGKILL] * 2
    assert own[0].run("true") == ""


def be_killed():
    with Network(2) as network:
        network.shape(network[0], delay=0.1)
        sleeper(network[1])
        pids = (host.pid for host in (network.switch, *network))
        print(*pids, network.agent.parent, flush=True)
        signal.pause()


def test_nothing_stays_of_a_network_whose_maker_is_killed(connect, start):
    connect(1)  # skips where there are none
    job = start(launch.program(be_killed))
    launch.until(lambda: "\n" in job.output, job)
    *words, folder = job.output.split()
    pids = list(map(int, words))
    with contextlib.ExitStack() as stack:
        spaces = spaces_of(pids, stack)
        holders = [stack.enter_context(os.fdopen(os.pidfd_open(pid))) for pid in pids]
        os.kill(job.pid, signal.SIGKILL)
        assert job.wait() == -signal.SIGKILL
        for holder in holders:
            assert select.select([holder], [], [], LIMIT)[0], "a holder outlived its maker"
        assert not living_in(spaces)
    assert not Path(folder).exists()
