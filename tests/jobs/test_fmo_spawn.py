"""The main job by mpi4py's Spawn, unmodified, with our communicators: the same bits as by MPI's."""

import json
import sys

import launch
import openfmo
import pytest
from openfmo import WATER

sys.path.append(str(launch.ROOT / "benchmarks"))

import fmo_spawn

pytestmark = openfmo.needs_pyscf
PROCESS = launch.ROOT / "benchmarks" / "fmo_process.py"
ENERGIES = ("energy", "monomers", "corrections", "electrostatic_batches", "sweeps")


def test_all_sides_of_the_benchmark_find_the_same_energies():
    layout = [str(WATER), "--first", "2", "--basis", "STO-3G"]
    layout += ["--groups", "2", "--group-size", "1", "--servers", "1"]
    outcomes = [fmo_spawn.run(side, layout, 2, 1) for side in fmo_spawn.SIDES]
    assert len({outcome.energies for outcome in outcomes}) == 1


@pytest.mark.slow
def test_spawned_servers_and_workers_find_the_same_energies_on_ours(passes, tmp_path):
    found = []
    for hook in ("0", "1"):
        folder = tmp_path / hook
        folder.mkdir()
        program = [sys.executable, PROCESS, folder, "0.0", "master", WATER, "--first", 4]
        program += ["--basis", "STO-3G", "--groups", 2, "--group-size", 1, "--servers", 1]
        program += ["--json", folder / "result.json", "--dump", folder / "dump"]
        passes([*launch.mpiexec(1), *map(str, program)], {"ACP_SPAWN": hook}, 90.0)
        result = json.loads((folder / "result.json").read_text())
        found.append({name: result[name] for name in ENERGIES})
    assert found[0] == found[1]
