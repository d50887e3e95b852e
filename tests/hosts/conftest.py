"""Networks of hosts on this machine, and jobs that span them."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import launch
import pytest
from hosts import network
from starting import Start

from acp_mpi.spawn import secret

RENDEZVOUS_PORT = 7700  # free at every switch: it is a host of its own

Connect = Callable[..., network.Network]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """connect(hosts, interfaces=, ipv6=) makes a network for one test."""
    if reason := network.why_not():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(network.Network(*args, **options))


@pytest.fixture
def two_hosts(connect: Connect) -> network.Network:
    return connect(2)


@pytest.fixture
def three_hosts(connect: Connect) -> network.Network:
    return connect(3)


@pytest.fixture
def four_hosts(connect: Connect) -> network.Network:
    return connect(4)


@pytest.fixture
def on_each_host(start: Start, tmp_path: Path) -> Callable[..., list[launch.Job]]:
    """on_each_host(network, command, env) starts one ACP-only process a host, in one group."""

    def run(
        hosts: network.Network, command: list[str], env: dict[str, str] | None = None
    ) -> list[launch.Job]:
        path, size = tmp_path / "secret", len(hosts.hosts)
        secret.create(path)
        address = f"{hosts.switch.address}:{RENDEZVOUS_PORT}"
        serve = [sys.executable, "-m", "acp_mpi.spawn.serve", "--listen", address,
                 "--groups", f"apart={size}", "--secret-file", str(path)]  # fmt: skip
        start(hosts.switch.command(serve))
        place = {
            "ACP_RENDEZVOUS": address, "ACP_SECRET_FILE": str(path), "ACP_MPI": "0",
            "ACP_GROUP": "apart", "ACP_GROUP_SIZE": str(size),
        } | (env or {})  # fmt: skip
        return [
            start(host.command(command), place | {"ACP_GROUP_RANK": str(rank)})
            for rank, host in enumerate(hosts)
        ]

    return run
