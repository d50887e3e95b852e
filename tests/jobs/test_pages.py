"""Programs and commands of README and the tour run, and print what stands there."""

import itertools
import re
import sys

import launch
import openfmo
import pages
import pytest

TOUR = "mpiexec -n 4 python tour.py\n"
GROUPS = "macprun -n 1 --name master python master.py : -n 4 --mpi --name worker python worker.py\n"
SPAWNING = "mpiexec -n 4 python -m acp_mpi.spawn app.py\n"
WITHOUT_MATPLOTLIB = "raise ImportError('as if it were not installed')"
ENERGY = "[master.0] E(FMO2)"
MEMBER = """
import acp_mpi as acp
with acp.init():
    print("rank", acp.rank(), "of", acp.procs())
"""
# A rank that has dealt with a row of the picture stands there by its number.
VARYING = [
    (r"\b0x[0-9a-f]+", "0x…"),
    (r"(?m)^[ .:\-0-3]+$", lambda line: re.sub("[0-3]", "#", line[0])),
    (r"[-+]?\d\.\d+e[-+]\d+", "…"),  # how near an energy is
    (r"-?\d+\.\d{6,}", lambda energy: f"{float(energy[0]):.5f}"),
]


def as_shown(text: str) -> str:
    """Return what a page may say of a run: without addresses and what else differs by run."""
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text)
    return text


def test_every_command_and_every_output_of_a_page_has_a_test_in_this_file():
    for page in pages.FIRST_USE:
        found = pages.blocks(page)
        for before, block in itertools.pairwise(found):
            if block.language == "sh" and not block.why_not:
                assert block.text in (TOUR, GROUPS, SPAWNING), f"{page}: {block.text}"
            if block.language == "text":
                assert before.text == TOUR or ENERGY in block.text, f"{page}: {block.text}"


@pytest.mark.smoke("docs/tour.md", "README.md")
@pytest.mark.parametrize("page", pages.FIRST_USE)
def test_the_program_of_a_page_prints_what_stands_there(shell, tmp_path, page):
    (tmp_path / "tour.py").write_text(pages.program(page))
    (tmp_path / "matplotlib.py").write_text(WITHOUT_MATPLOTLIB)
    found = pages.blocks(page)
    place = next(number for number, block in enumerate(found) if block.text == TOUR)
    assert found[place + 1].language == "text"
    assert as_shown(shell(TOUR)) == as_shown(found[place + 1].text)


def test_the_tour_ends_with_a_picture_where_matplotlib_is_installed(shell, tmp_path):
    (tmp_path / "tour.py").write_text(pages.program("docs/tour.md"))
    library = tmp_path / "matplotlib"
    library.mkdir()
    (library / "__init__.py").touch()
    (library / "image.py").write_text(
        "def imsave(name, rows): open(name, 'w').write(f'{rows.shape} {rows.max()}')"
    )
    assert shell(TOUR).endswith("\nin colour: tour.png\n")
    shape, _, brightest = (tmp_path / "tour.png").read_text().rpartition(" ")
    assert shape == "(252, 378)"
    assert 32 <= int(brightest) <= 44


@pytest.mark.parametrize("page", pages.FIRST_USE)
@pytest.mark.parametrize("ranks", [None, 1, 3])
def test_with_another_number_of_ranks_the_tour_says_what_to_do(fails, tmp_path, page, ranks):
    (tmp_path / "tour.py").write_text(pages.program(page))
    command = [sys.executable, "tour.py"]
    output = fails([*launch.mpiexec(ranks), *command] if ranks else command)
    assert re.search(rf"\b4 ranks.*\b{ranks or 1}: .*mpiexec -n 4 python tour.py", output), output
    assert "beside python" in output


@pytest.mark.parametrize("page", pages.FIRST_USE)
def test_started_as_jobs_of_one_the_tour_says_what_to_do(start, tmp_path, page):
    python = launch.other_python()
    if python is None or launch.mpi_name() == "mpich":
        pytest.skip("MPICH ends a process that Open MPI's launcher has started, before any line")
    (tmp_path / "tour.py").write_text(pages.program(page))
    job = start([*launch.mpiexec(4, python=python), sys.executable, "tour.py"])
    assert job.wait() != 0
    assert re.search(r"\b4 ranks.*\b1: .*mpiexec -n 4 python tour.py", job.output), job.output


@pytest.mark.smoke
def test_the_groups_of_readme_are_one_job(shell, tmp_path):
    for name in ("master.py", "worker.py"):
        (tmp_path / name).write_text(MEMBER)
    output = shell(GROUPS)
    for rank in range(5):
        assert f"rank {rank} of 5\n" in output


@pytest.mark.smoke
def test_a_program_of_mpi4py_spawns_by_the_command_of_readme(shell, tmp_path):
    example = launch.ROOT / "examples" / "spawn_sweep.py"
    (tmp_path / "app.py").write_text(example.read_text())
    assert "8 pendulums by 2 processes\n" in shell(SPAWNING)


@pytest.mark.smoke
@openfmo.needs_pyscf
def test_the_demo_prints_what_readme_shows(shell):
    """As make runs it."""
    if launch.mpi_name() != "mpich":
        pytest.skip("`make demo` runs it in the environment of MPICH")
    (shown,) = (b.text for b in pages.blocks("README.md") if ENERGY in b.text)
    output = shell("python -m openfmo_like.demo\n", openfmo.EXAMPLES, 120.0)
    lines = iter(as_shown(output).splitlines())
    for line in as_shown(shown).splitlines():
        assert line in lines, f"{line}\nis not there, or not in this order:\n{output}"
