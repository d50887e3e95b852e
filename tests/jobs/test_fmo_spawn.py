"""The main job by mpi4py's Spawn, unmodified, with our communicators: the same bits as by MPI's."""

import json
import shutil
import sys

import launch
import openfmo
import pytest
from openfmo import WATER

sys.path.append(str(launch.ROOT / "benchmarks"))

import fmo_spawn

pytestmark = openfmo.needs_pyscf
EXAMPLES = launch.ROOT / "examples"
ENERGIES = ("energy", "monomers", "corrections", "electrostatic_batches", "sweeps")


def test_all_sides_of_the_benchmark_find_the_same_energies():
    layout = [str(WATER), "--first", "2", "--basis", "STO-3G"]
    layout += ["--groups", "2", "--group-size", "1", "--servers", "1"]
    outcomes = [fmo_spawn.run(side, layout, 2, 1) for side in fmo_spawn.SIDES]
    assert len({outcome.energies for outcome in outcomes}) == 1


def spawned(hook, *arguments):
    """Return the command and the environment of the example, by MPI's Spawn or by ours."""
    program = [sys.executable, "-m", "openfmo_by_spawn", *map(str, arguments)]
    return [*launch.mpiexec(1), *program], {"ACP_SPAWN": hook, "PYTHONPATH": str(EXAMPLES)}


def test_spawned_servers_and_workers_find_the_same_energies_on_ours(passes, tmp_path):
    found = []
    # by MPI's own Spawn one group: Open MPI's Accept has hung when two groups connected at once
    for hook, groups in (("0", 1), ("1", 2)):
        file, drawn = tmp_path / f"{hook}.json", tmp_path / f"{hook}.svg"
        layout = ["--groups", groups, "--group-size", 1, "--servers", 2]
        layout += ["--dump", tmp_path / "dump"]
        command, env = spawned(hook, WATER, "--first", 3, *layout, "--json", file, "--gantt", drawn)
        passes(command, env, 90.0)
        assert "<svg" in drawn.read_text()
        found.append({name: json.loads(file.read_text())[name] for name in ENERGIES})
    assert found[0] == found[1]


def test_the_spawned_program_names_itself(passes):
    assert "usage: python -m openfmo_by_spawn " in passes(*spawned("1", "--help"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((WATER, "--first", 2, "--basis", "no such"), "basis 'no such' of fragment 1"),
        (("/nonexistent",), "/nonexistent: No such file"),
        ((WATER, "--dry-run"), "--dry-run: there is no job file"),
        ((WATER, "--restart", WATER), "no dump of this program"),
    ],
    ids=["basis", "input", "job file", "dump"],
)
def test_what_is_wrong_with_the_input_ends_the_spawned_program(start, arguments, said):
    command, env = spawned("1", *arguments)
    job = start(command, env)
    assert job.wait() == 2, job.output
    assert "openfmo_by_spawn: " in job.output
    assert said in job.output
    launch.until(lambda: not job.processes())


def test_a_spawned_calculation_goes_on_from_its_dump(start, passes, tmp_path):
    dump, copy, files = tmp_path / "dump", tmp_path / "copy", [tmp_path / "1", tmp_path / "2"]
    layout = [WATER, "--first", 6, "--group-size", 1, "--dump", dump]

    def copied():
        """Take a dump of which more than the first sweep is: it is whole at any time."""
        if not dump.exists():
            return False
        shutil.copy(dump, copy)
        with copy.open("rb") as file:
            return len(json.loads(file.readline())["sweeps"]) > 2

    command, env = spawned("1", *layout, "--json", files[0])
    job = start(command, env)
    launch.until(copied)
    assert job.wait() == 0, job.output
    command, env = spawned("1", *layout, "--json", files[1], "--restart", copy)
    assert "sweep  1 " not in passes(command, env)
    first, again = (json.loads(file.read_text()) for file in files)
    assert [first[name] for name in ENERGIES[:4]] == [again[name] for name in ENERGIES[:4]]
