"""Networks of hosts on this machine, and jobs that span them."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import launch
import pytest
from hosts import group, network
from starting import Start

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
def serve(start: Start, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """serve(network, groups) opens a rendezvous at the switch; returns what the groups need."""

    def run(hosts: network.Network, groups: dict[str, int]) -> dict[str, str]:
        command, place = group.meet(hosts, tmp_path, groups)
        start(command)
        return place

    return run


@pytest.fixture
def on_each_host(start: Start, tmp_path: Path) -> Callable[..., list[launch.Job]]:
    """on_each_host(network, command, env) starts one ACP-only process a host, in one group."""

    def run(
        hosts: network.Network, command: list[str], env: dict[str, str] | None = None
    ) -> list[launch.Job]:
        serve, places = group.apart(hosts, tmp_path)
        start(serve)
        return [
            start(host.command(command), place | (env or {}))
            for host, place in zip(hosts, places, strict=True)
        ]

    return run
