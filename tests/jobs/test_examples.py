"""The programs in examples/ and the pages of documentation that are programs."""

import os
import random
import re
import sys
from collections import Counter
from pathlib import Path

import launch
import pages
import pytest
from macprunning import macprun
from support import case

SPAWNING = sorted((launch.ROOT / "examples").glob("spawn_*.py"))
EXAMPLES = sorted(set((launch.ROOT / "examples").glob("*.py")) - set(SPAWNING))
NEEDS_TWO = {"pipeline"}
SMALL = {
    "allgather": ["--bytes", "100"],
    "device_ring": ["--bytes", "5000", "--rounds", "2"],
    "handing_out": ["--pieces", "40", "--points", "500"],
    "groups": ["--pieces", "20", "--points", "200"],
    "placement": ["--elements", "200"],
    "progress": ["--bounds", "20"],
    "pipeline": ["--blocks", "8", "--length", "5000"],
    "window": ["--samples", "1000"],
    "wordcount": [],
    "stencil": ["--size", "48", "--steps", "60"],
}


# Every number of ranks and every road.
PLACES = [(1, "any"), (2, "owner"), (4, "link"), (3, "nodes"), (3, "window"), (4, "any")]


@pytest.mark.parametrize(("ranks", "road"), PLACES)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_checks_itself(start, example, ranks, road):
    command = [sys.executable, str(example), *SMALL[example.stem]]
    job = start([*launch.mpiexec(ranks), *command], launch.ROADS[road])
    status = job.wait()
    if example.stem in NEEDS_TWO and ranks == 1:
        assert status == 2, job.output
        assert "2 ranks" in job.output
    else:
        assert status == 0, job.output


@pytest.mark.parametrize(("option", "status"), [("--help", 0), ("--nothing", 2)])
def test_an_example_explains_itself_and_refuses_what_it_does_not_know(start, option, status):
    for example in (*EXAMPLES, *SPAWNING):
        with case(example.stem):
            job = start([sys.executable, str(example), option])
            assert job.wait() == status, job.output
            assert "usage:" in job.output


def test_what_an_example_cannot_do_with_its_ranks_is_a_usage_error_on_all(start):
    command = [sys.executable, str(launch.ROOT / "examples" / "stencil.py"), "--size", "1"]
    job = start([*launch.mpiexec(2), *command])
    assert job.wait() == 2, job.output
    assert job.output.count("--size must be at least the number of ranks, 2") == 2


@pytest.mark.parametrize("ranks", [1, 3])
def test_all_words_of_a_text_are_counted_once(passes, tmp_path, ranks):
    dice, text = random.Random(ranks), tmp_path / "text"
    lines = [
        " ".join(dice.choices(["a", "Bee", "sea", "é"], k=dice.randrange(9))) for _ in range(99)
    ]
    text.write_text("\n".join([*lines, "a" * 500, "the end"]), encoding="utf-8")
    command = [sys.executable, str(launch.ROOT / "examples/wordcount.py"), str(text), "--top", "3"]
    output = passes([*launch.mpiexec(ranks), *command])
    counts = Counter(text.read_text(encoding="utf-8").lower().split())
    assert f"{counts.total()} words, {len(counts)} different ones, on {ranks} ranks" in output
    for word, count in counts.most_common(3):
        assert re.search(rf"^ *{count} {word}$", output, re.MULTILINE), output


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--top", "-1"], 2, "--top must not be negative"),
        (["/nonexistent"], 1, "wordcount: /nonexistent cannot be read: No such file"),
    ],
)
def test_what_the_counting_of_words_cannot_do_is_said(start, arguments, status, said):
    job = start([sys.executable, str(launch.ROOT / "examples/wordcount.py"), *arguments])
    assert job.wait() == status, job.output
    assert said in job.output


@pytest.mark.parametrize("elements", ["0", "1", "-5", "x"])
def test_the_placement_of_too_few_elements_is_a_usage_error(start, elements):
    script = str(launch.ROOT / "examples/placement.py")
    job = start([sys.executable, script, "--elements", elements])
    assert job.wait() == 2, job.output
    assert "--elements" in job.output


@pytest.mark.parametrize("example", ["groups", "handing_out"])
def test_an_example_that_fails_says_why(start, example):
    script = str(launch.ROOT / f"examples/{example}.py")
    job = start([*launch.mpiexec(2), sys.executable, script, "--pieces", "1", "--points", "1"])
    assert job.wait() == 1, job.output
    assert f"{example}: that is not pi; more " in job.output


def test_a_pool_of_more_than_there_is_to_do_is_a_usage_error(start):
    (sweep,) = (path for path in SPAWNING if path.stem == "spawn_sweep")
    job = start([sys.executable, "-m", "acp_mpi.spawn", str(sweep), "--workers", str(10**20)])
    assert job.wait() == 2, job.output
    assert "--workers must be at most --count" in job.output


@pytest.mark.parametrize("ranks", [0, 1, 2])
@pytest.mark.parametrize("example", SPAWNING, ids=lambda path: path.stem)
def test_an_example_of_mpi4py_spawns_as_it_is(passes, example, ranks):
    command = [sys.executable, "-m", "acp_mpi.spawn", str(example), "--workers", "2"]
    output = passes([*launch.mpiexec(ranks), *command] if ranks else command)
    assert "by 2 workers" in output or "by 2 processes" in output


@pytest.mark.parametrize("example", SPAWNING, ids=lambda path: path.stem)
def test_the_same_example_spawns_by_mpi(passes, example):
    command = [*launch.mpiexec(1), sys.executable, str(example), "--workers", "2"]
    output = passes(command)
    assert "by 2 workers" in output or "by 2 processes" in output


@pytest.mark.smoke
def test_the_example_of_groups_is_started_by_its_job_file(passes):
    folder = Path(sys.executable).parent
    command = f"cd {launch.ROOT / 'examples'} && {folder / 'macprun'} groups.toml"
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    output = passes(["sh", "-c", command], {"PATH": path})
    assert "[master.0] pi is 3.14159265" in output
    assert "by 5 processes in 3 groups" in output


@pytest.mark.smoke
def test_a_solver_and_an_observer_are_coupled_by_channels(passes):
    folder = Path(sys.executable).parent
    command = f"cd {launch.ROOT / 'examples' / 'heat'} && {folder / 'macprun'} job.toml"
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    output = passes(["sh", "-c", command], {"PATH": path})
    assert re.search(r"\[solver.0\] \d+ steps: heat 0\.4[78]", output), output
    assert re.search(r"while it cooled within 0\.000\d+ of the exact solution", output), output


@pytest.mark.parametrize("road", ["owner", "link"])
def test_an_observer_steers_a_solver_on_every_road(passes, tmp_path, road):
    folder, picture = launch.ROOT / "examples" / "heat", tmp_path / "heat.svg"
    solver = [sys.executable, folder / "solver.py", "--cells", "8", "--every", "4"]
    observer = [sys.executable, folder / "observer.py", "--hot", "2", "--picture", picture]
    command = macprun(
        [3, "--mpi", "--name", "solver", *solver],
        [1, "--name", "observer", *observer],
    )
    output = passes(command, launch.ROADS[road])
    assert re.search(r"\[solver.0\] \d+ steps: heat 0\.8", output), output
    assert picture.read_text().startswith("<svg")


def test_the_stencil_draws_a_picture(passes, tmp_path):
    picture = tmp_path / "heat.png"
    passes(
        [
            *launch.mpiexec(2),
            sys.executable,
            str(launch.ROOT / "examples" / "stencil.py"),
            *SMALL["stencil"],
            "--picture",
            str(picture),
        ]
    )
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("page", ["docs/messages.md", "docs/collectives.md"])
def test_the_code_of_a_page_is_a_program_that_runs(passes, tmp_path, page, ranks):
    program = tmp_path / "page.py"
    program.write_text(pages.program(page))
    passes([*launch.mpiexec(ranks), sys.executable, str(program)])
