"""Storms over several hosts: besides kills and stops cables are pulled and connections broken."""

import itertools
import os
import time

import launch
import pytest
import storming
from hosts import group
from hosts.network import Network, why_not
from support import tries

pytestmark = pytest.mark.hosts

HOSTS = 4
EVENTS = 6
SECONDS = float(os.environ.get("STORM_SECONDS", "600"))


class OverHosts(storming.Weather):
    """What happens to hosts, beside what happens to their processes."""

    def __init__(self, network, *rest):
        super().__init__(*rest)
        self.network = network

    def pull(self):
        host = self.network[self.dice.choice(self.living)]
        self.network.pull(host)
        self.pause()
        self.network.plug(host)

    def down(self):
        host = self.network[self.dice.choice(self.living)]
        host.down()
        self.pause()
        host.up()

    def reset(self):
        self.network[self.dice.choice(self.living)].reset_connections()


@pytest.fixture
def storm(start, tmp_path):
    """storm(seed) has one storm pass over hosts."""
    if reason := why_not():
        pytest.skip(reason)

    def run(seed):
        folder = tmp_path / f"storm {seed}"
        folder.mkdir()
        with Network(HOSTS) as network:
            command = launch.program(storming.program, folder, seed)
            serve, places = group.apart(network, folder)
            start(serve)
            jobs = [
                start(host.command(command), place)
                for host, place in zip(network, places, strict=True)
            ]
            weather = OverHosts(network, folder, jobs, seed)
            events = [weather.kill, weather.stop, weather.pull, weather.down, weather.reset]
            storming.storm(weather, events, EVENTS)

    return run


@pytest.mark.parametrize("seed", range(tries(12)))
def test_a_storm_passes(storm, seed):
    storm(seed)


@pytest.mark.campaign
@pytest.mark.timeout(SECONDS + 600)
def test_storms_pass_for_hours(storm):
    end = time.monotonic() + SECONDS
    for seed in itertools.count():
        print("seed", seed, flush=True)
        storm(seed)
        if time.monotonic() > end:
            break
