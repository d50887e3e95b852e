"""Mixed operations while ranks are killed and stopped: no wrong result, no hang, no leftover.

`make test-matrix` runs few; STORM_SECONDS=3600 .venv/mpich/bin/pytest tests/jobs/test_storms.py -m
campaign runs them with ever new seeds for that long.
"""

import itertools
import os
import time

import launch
import pytest
import storming
from support import tries

RANKS = 4
EVENTS = 6
SECONDS = float(os.environ.get("STORM_SECONDS", "600"))


@pytest.fixture
def storm(without_mpi, tmp_path):
    """storm(road, seed) has one storm pass over ranks of one node or of several."""

    def run(road, seed):
        folder = tmp_path / f"{road} {seed}"
        folder.mkdir()
        command = launch.program(storming.program, folder, seed)
        jobs = without_mpi(RANKS, command, launch.ROADS[road])
        weather = storming.Weather(folder, jobs, seed)
        events = [weather.kill, weather.stop, weather.stop, weather.stop_and_kill]
        storming.storm(weather, events, EVENTS)
        assert not [name for name in os.listdir("/dev/shm") if name.startswith("acp")]

    return run


@pytest.mark.parametrize("seed", range(tries(12)))
@pytest.mark.parametrize("road", ["any", "link"])
def test_a_storm_passes(storm, road, seed):
    storm(road, seed)


@pytest.mark.campaign
@pytest.mark.timeout(SECONDS + 600)
def test_storms_pass_for_hours(storm):
    end = time.monotonic() + SECONDS
    for seed, road in zip(itertools.count(), itertools.cycle(launch.ROADS), strict=False):
        print("seed", seed, "road", road, flush=True)
        storm(road, seed)
        if time.monotonic() > end:
            break
