"""The example openfmo_like as a job: any layout gives the same bits, and deaths are survived."""

import contextlib
import json
import os
import re
import signal
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import launch
import openfmo
import pytest
from openfmo import WATER

pytestmark = openfmo.needs_pyscf

# Five molecules with all three levels of the field, and pairs of both kinds.
SMALL = [WATER, "--first", 5, "--respap", 0.8, "--resppc", 1.5, "--resdim", 1.5]
LIMIT = 90.0
ENERGIES = ("energy", "monomers", "corrections", "electrostatic_batches", "sweeps")


def energies(folder):
    found = openfmo.result(folder)
    return {name: found[name] for name in ENERGIES}


@pytest.fixture
def alone(passes, tmp_path):
    """alone(options) returns the energies that one process finds by itself."""

    def run(*options):
        folder = tmp_path / "alone"
        folder.mkdir()
        path = folder / "result.json"
        passes(openfmo.program(tmp_path, *options, "--json", path), {"ACP_MPI": "0"}, LIMIT)
        return energies(folder)

    return run


@pytest.fixture
def joined(start, meeting, tmp_path):
    """joined(options, groups, size) starts master, server and groups; returns their jobs."""

    def run(options, groups, size, servers=1):
        command = openfmo.program(tmp_path, *options, "--json", "result.json")
        names = [f"worker{g + 1}" for g in range(groups)]
        sizes = {"master": 1, "server": servers} | dict.fromkeys(names, size)
        place = meeting(sizes)
        watched = [command[0], "-X", "importtime", *command[1:]]
        jobs = {"master": start(watched, place | {"ACP_MPI": "0", "ACP_GROUP": "master"})}
        for rank in range(servers):
            env = place | {
                "ACP_MPI": "0", "ACP_GROUP": "server", "ACP_GROUP_SIZE": str(servers),
                "ACP_GROUP_RANK": str(rank),
            }  # fmt: skip
            jobs[f"server{rank}"] = start(watched, env)
        for name in names:
            jobs[name] = start([*launch.mpiexec(size), *command], place | {"ACP_GROUP": name})
        return jobs

    return run


def is_in_group(name, pid):
    try:
        return f"ACP_GROUP={name}" in Path(f"/proc/{pid}/environ").read_text(
            errors="replace"
        ).split("\0")
    except OSError:
        return False


def until(pattern, job, *others):
    """Return when a job has printed it."""
    launch.until(lambda: re.search(pattern, job.output), job, *others, limit=60.0)


def pairs_in(dump):
    """Return the results of SCF pairs that a dump has, none if there is no dump yet."""
    if not dump.exists():
        return {}
    with dump.open("rb") as file:
        return json.loads(file.readline())["results"].get("SCF pairs", {})


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        (2, 1),
        pytest.param(1, 2, marks=pytest.mark.slow),
        pytest.param(1, 1, marks=pytest.mark.slow),
        pytest.param(2, 2, marks=pytest.mark.slow),
        pytest.param(1, 3, marks=pytest.mark.slow),
    ],
)
def test_one_mpirun_of_any_layout_gives_the_same_bits(passes, alone, tmp_path, groups, size):
    layout = ["--groups", groups, "--group-size", size, "--servers", 2]
    command = openfmo.program(tmp_path, *SMALL, *layout, "--json", "result.json")
    passes([*launch.mpiexec(3 + groups * size), *command], limit=LIMIT)
    assert energies(tmp_path) == alone(*SMALL)


@pytest.mark.parametrize(("groups", "size"), [(2, 2), pytest.param(3, 1, marks=pytest.mark.slow)])
def test_joined_groups_give_the_same_bits(joined, alone, tmp_path, groups, size):
    jobs = joined(SMALL, groups, size, servers=2)
    for name, job in jobs.items():
        assert job.wait(LIMIT) == 0, f"{name}:\n{job.output}"
        if name == "master" or name.startswith("server"):
            modules = {line.rpartition("|")[2].strip() for line in job.output.splitlines()}
            assert not modules & {"numpy", "mpi4py", "pyscf"}, name
    assert energies(tmp_path) == alone(*SMALL)
    found = openfmo.result(tmp_path)
    assert found["pairs_scf"] + found["pairs_es"] == 10
    assert found["pairs_es"] > 0


def test_a_group_that_is_killed_is_replaced_by_the_others(joined, alone, tmp_path):
    eight = [WATER, "--first", 8]
    jobs = joined(eight, 2, 1)
    until(r"sweep +1", jobs["master"], *jobs.values())
    for pid in jobs["worker2"].processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert jobs["master"].wait(LIMIT) == 0, jobs["master"].output
    assert "group 2 of the workers died" in jobs["master"].output
    assert jobs["server0"].wait(LIMIT) == jobs["worker1"].wait(LIMIT) == 0
    assert energies(tmp_path) == alone(*eight)
    assert openfmo.result(tmp_path)["lost_groups"] == [1]


@pytest.mark.parametrize(
    ("victim", "word"),
    [
        ("server0", r"\(group server\) has died"),
        pytest.param("master", "sweep", marks=pytest.mark.slow),
    ],
)
def test_what_a_killed_job_leaves_can_be_gone_on_with(
    joined, passes, alone, tmp_path, victim, word
):
    eight = [WATER, "--first", 8]
    jobs = joined(eight, 1, 2)
    until(r"sweep +3", jobs["master"], *jobs.values())
    for pid in jobs[victim].processes():
        os.kill(pid, signal.SIGKILL)
    codes = {name: job.wait(LIMIT) for name, job in jobs.items()}
    for name in {victim, "master"}:  # a worker may have been told to stop before it heard
        assert codes[name] != 0, f"{name}:\n{jobs[name].output}"
    assert re.search(word, jobs["master"].output)
    if victim != "master":
        assert "--restart water16.dump" in jobs["master"].output
    dump = tmp_path / "water16.dump"
    again = [*eight, "--restart", dump, "--json", "result.json"]
    output = passes(openfmo.program(tmp_path, *again), {"ACP_MPI": "0"}, LIMIT)
    assert "sweep  1" not in output
    assert energies(tmp_path) == alone(*eight)
    assert not dump.exists()


@pytest.mark.parametrize("groups", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_pairs_that_a_dump_has_are_not_done_again(start, joined, passes, alone, tmp_path, groups):
    eight = [WATER, "--first", 8]
    dump = tmp_path / "water16.dump"
    often = [*eight, "--dump-every", 0]
    if groups:
        jobs = list(joined(often, groups, 1).values())
    else:
        jobs = [start(openfmo.program(tmp_path, *often), {"ACP_MPI": "0"})]
    launch.until(lambda: len(pairs_in(dump)) > 4, *jobs, limit=60.0)
    os.kill(jobs[0].pid, signal.SIGKILL)  # who dumps: the job may end while others are looked for
    for pid in [pid for job in jobs for pid in job.processes()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for job in jobs:
        job.wait(LIMIT)  # most by the kill; who heard of it first may have stopped in order
    done = len(pairs_in(dump))
    assert 4 < done < 23  # killed among the SCF pairs
    again = [*eight, "--restart", dump, "--json", "result.json"]
    passes(openfmo.program(tmp_path, *again), {"ACP_MPI": "0"}, LIMIT)
    numbers = {phase["name"]: phase["jobs"] for phase in openfmo.result(tmp_path)["phases"]}
    assert numbers["SCF pairs"] == 23 - done
    assert "monomers" not in numbers
    assert energies(tmp_path) == alone(*eight)


@pytest.mark.smoke
def test_the_program_starts_its_job_by_macprun(start, alone, tmp_path):
    command = openfmo.program(tmp_path, *SMALL, "--group-size", 1, "--json", "result.json")
    job = start(command)
    assert job.wait(LIMIT) == 0, job.output
    assert "[master.0] E(FMO2)" in job.output
    launch.until(lambda: not job.processes())
    assert energies(tmp_path) == alone(*SMALL)


@pytest.mark.slow
def test_macprun_ends_well_without_a_group_that_was_killed(start, alone, tmp_path):
    eight = [WATER, "--first", 8]
    job = start(openfmo.program(tmp_path, *eight, "--group-size", 1, "--json", "result.json"))
    until(r"sweep +1", job)
    for pid in [pid for pid in job.processes() if is_in_group("worker1", pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert job.wait(LIMIT) == 0, job.output
    assert openfmo.result(tmp_path)["lost_groups"] == [0]
    assert energies(tmp_path) == alone(*eight)


def test_a_dry_run_prints_the_job_file(passes, tmp_path):
    options = ["--groups", 3, "--group-size", 4, "--servers", 2, "--dry-run"]
    text = passes(openfmo.program(tmp_path, WATER, *options))
    groups = tomllib.loads(text)["group"]
    assert [(group["name"], group["processes"]) for group in groups] == [
        ("master", 1), ("server", 2), ("worker1", 4), ("worker2", 4), ("worker3", 4),
    ]  # fmt: skip
    assert all(group.get("optional", False) == group.get("mpi", False) for group in groups)


def test_what_is_wrong_with_the_input_is_said_once(fails, tmp_path):
    output = fails(openfmo.program(tmp_path, WATER, "--first", 99))
    assert output.count("16 molecules") == 1
    assert "macprun" not in output


@pytest.mark.parametrize("option", ["--json", "--gantt", "--dump"])
@pytest.mark.parametrize(
    ("path", "reason"),
    [("gone/file", "gone is no folder where you may write"), (".", "that is a folder")],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_starts(
    fails, tmp_path, option, path, reason
):
    output = fails(openfmo.program(tmp_path, WATER, "--first", 2, option, path))
    assert f"{option} {path}: {reason}" in output
    assert "macprun" not in output
    one = openfmo.program(tmp_path, WATER, "--first", 2, "--groups", 1, option, path)
    assert f"{option} {path}: {reason}" in fails(one, {"ACP_MPI": "0"})


def test_results_that_a_full_disk_does_not_take_are_in_the_dump(fails, passes, tmp_path):
    two = [WATER, "--first", 2]
    output = fails(openfmo.program(tmp_path, *two, "--json", "/dev/full"), {"ACP_MPI": "0"}, LIMIT)
    assert "Traceback" not in output
    assert "the results could not be written" in output
    assert "go on with --restart water16.dump" in output
    again = [*two, "--restart", "water16.dump", "--json", "result.json"]
    assert "sweep  1" not in passes(openfmo.program(tmp_path, *again), {"ACP_MPI": "0"}, LIMIT)
    assert openfmo.result(tmp_path)["energy"]


def test_a_dump_of_another_calculation_is_refused(fails, tmp_path):
    (tmp_path / "other.dump").write_bytes(
        b'{"format": 1, "calculation": "", "bytes": 0, "sweeps": [], "monomers": [], '
        b'"results": {}}\n'
    )
    command = openfmo.program(tmp_path, *SMALL, "--restart", "other.dump")
    assert "another calculation" in fails(command, {"ACP_MPI": "0"})


def test_the_wrong_number_of_processes_is_said(fails, tmp_path):
    command = openfmo.program(tmp_path, *SMALL, "--groups", 2, "--group-size", 2)
    output = fails([*launch.mpiexec(3), *command])
    assert "mpirun started 3" in output


def test_the_picture_has_a_lane_for_each_group(passes, tmp_path):
    options = ["--groups", 2, "--group-size", 1, "--gantt", "who.svg"]
    passes([*launch.mpiexec(4), *openfmo.program(tmp_path, *SMALL, *options)], limit=LIMIT)
    picture = (tmp_path / "who.svg").read_text()
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert "group 1" in picture
    assert "group 2" in picture
    assert picture.count("<title>") > 20
