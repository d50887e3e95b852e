"""The blocks of the pages behind README and the tour run, too, and print what stands there."""

import re
import shlex
import sys
import sysconfig
from pathlib import Path

import launch
import numpy as np
import pages
import pytest

from acp_mpi import get_include

# In one write, between which and others nothing gets.
MEMBER = """
import sys
import acp_mpi as acp
with acp.init():
    sys.stdout.write(f"rank {acp.rank()} of {acp.procs()}\\n")
    sys.stdout.flush()
    acp.sync()
"""
USER_OF_C = """
import acp_mpi as acp
with acp.init():
    import kernel
    x = acp.zeros(1)
    print("in C:", kernel.first(acp.query_ga(x)))
"""
BEGIN = "import acp_mpi as acp\nacp.init()\n"
# Programs in Python of two ranks, with what a page takes for granted.
PROGRAMS = {
    "docs/channels.md": "",
    "docs/collectives.md": "",
    "docs/containers.md": BEGIN,
    "docs/messages.md": "",
    "docs/progress.md": BEGIN + "solve = acp.sync\n",
    "docs/trouble.md": "",
}
RUN = {  # page -> how many of its blocks run here
    **dict.fromkeys(PROGRAMS, 1),
    "docs/c_interface.md": 3,
    "docs/channels.md": 2,
    "docs/containers.md": 2,
    "docs/delegates.md": 2,
    "docs/joining.md": 5,
    "docs/macprun.md": 2,
}
DRIVER = """
import pathlib, sys
import acp_mpi as acp
with acp.init():
    for path in sys.argv[1:]:
        exec(compile(pathlib.Path(path).read_text(), path, "exec"), {"__name__": "__main__"})
        acp.sync()
        sys.stdout.write(f"rank {acp.rank()} has run {path}\\n")
        sys.stdout.flush()
"""
LOOK = """
import os, subprocess, sys
acp.sync()
if acp.rank() == 0:
    command = [sys.executable, "-P", "-m", "acp_mpi", "heap", str(os.getpid())]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
acp.sync()
"""


def runnable(page: str, language: str) -> list[str]:
    """Return the blocks of a page in a language that no line says of why they do not run."""
    found = pages.blocks(page)
    return [block.text for block in found if block.language == language and not block.why_not]


def every_page() -> list[str]:
    """Return the names of all pages but those whose blocks run in test_pages.py."""
    root = launch.ROOT
    found = [root / "CONTRIBUTING.md", *root.glob("docs/**/*.md")]
    names = {str(path.relative_to(root)) for path in found}
    return sorted(names - set(pages.FIRST_USE))


def test_every_block_of_every_page_runs_or_has_a_reason_why_not():
    for page in every_page():
        code = [block for block in pages.blocks(page) if not block.language.startswith("{")]
        for block in code:
            assert block.language in (*pages.LANGUAGES, "c", "toml"), f"{page}: {block}"
        assert RUN.get(page, 0) == sum(not block.why_not for block in code), page


def test_programs_of_pages_run_and_the_heap_is_shown_as_on_its_page(passes, tmp_path):
    paths = []
    for page, before in PROGRAMS.items():
        program = "\n".join(runnable(page, "python"))
        after = LOOK if page == "docs/containers.md" else ""
        path = tmp_path / f"{Path(page).stem}_page.py"
        path.write_text(before + program + after)
        paths.append(str(path))
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, "-P", str(tmp_path / "driver.py"), *paths]
    output = passes([*launch.mpiexec(2), *command])
    for path in paths:
        assert all(f"rank {rank} has run {path}" in output for rank in (0, 1)), output
    (shown,) = runnable("docs/containers.md", "text")
    printed = [line.split() for line in output.splitlines()]
    for start in ("rank  process", "in rank 0"):
        (line,) = (each for each in shown.splitlines() if each.startswith(start))
        assert line.split() in printed, f"{line}\nis not printed:\n{output}"
    on_page, legend = (
        set(re.findall(r"(\S) (\w+)(?:   |$)", text[text.rindex("\n. free") :].split("\n")[1]))
        for text in (shown, output)
    )
    assert len(on_page & legend) == 7, (on_page, legend)  # free and six kinds


def test_groups_that_a_program_starts_are_as_joining_shows(shell, tmp_path):
    first, spawning, losing = runnable("docs/joining.md", "python")
    (tmp_path / "app.py").write_text("\n".join([first, BEGIN, spawning, losing]))
    for name in ("worker.py", "helper.py", "point.py"):
        (tmp_path / name).write_text(MEMBER)
    output = shell("python app.py\n")
    assert "0 of 1 in " in output
    for count, last in (2, 3), (1, 4):
        assert f"rank {last - 1} of " in output, (count, output)


def test_the_program_of_delegates_writes_its_files(shell, tmp_path):
    program, goes_on = runnable("docs/delegates.md", "python")
    (tmp_path / "app.py").write_text(program)
    shell(shlex.join(launch.mpiexec(2)) + " python app.py\n")
    for rank in (0, 1):
        assert (np.load(tmp_path / f"field{rank}-90.npy") == 91.0).all()
    goes_on += "    print(first, items['field'][0, 0])\n"
    (tmp_path / "app.py").write_text(goes_on)
    for shown in ("0 780.0", "40 780.0"):
        output = shell(shlex.join(launch.mpiexec(2)) + " python app.py\n")
        assert output.count(shown) == 2, output


def test_groups_meet_at_the_rendezvous_of_joining(shell, tmp_path):
    serving, members = runnable("docs/joining.md", "sh")
    secret, serve, shown = serving.splitlines()
    for name in ("ocean.py", "ice.py"):
        (tmp_path / name).write_text(MEMBER)
    shown = shown.rpartition(":")[0]
    address = re.search(r"\S+=(\S+)", members)[1]
    output = shell(
        f"""export HOME={tmp_path}
        {secret.removeprefix("$ ")}
        {serve.removeprefix("$ ")} >address &
        until grep -q = address; do sleep 0.1; done
        cat address
        """
        + members.replace(address, "$(sed s/.*=// address)")
        + "wait\n"
    )
    assert f"{shown}:" in output
    for rank in range(5):
        assert f"rank {rank} of 5\n" in output


def test_macprun_starts_the_groups_of_its_page_and_reads_its_file(shell, tmp_path):
    (groups,), (table,) = (runnable("docs/macprun.md", each) for each in ("sh", "toml"))
    for name in ("master.py", "worker.py"):
        (tmp_path / name).write_text(MEMBER)
    launcher = re.search(r'launcher = "(.*)"', table)[1]
    (tmp_path / "job.toml").write_text(table.replace(launcher, "mpiexec"))
    output = shell(groups + "macprun --dry-run job.toml\n")
    for rank in range(5):
        assert f"rank {rank} of 5\n" in output
    assert "python worker.py" in output.partition("of 5\n")[2]


def test_programs_in_c_are_compiled_as_their_page_says(shell, tmp_path):
    folder = Path(sysconfig.get_config_var("BINDIR"))
    if not (folder / "python3-config").exists():
        pytest.skip(f"{folder} has no python3-config: this Python has come without its headers")
    program, module = runnable("docs/c_interface.md", "c")
    (building,) = runnable("docs/c_interface.md", "sh")
    (tmp_path / "program.c").write_text(program)
    (tmp_path / "kernel.c").write_text(module)
    (tmp_path / "master.py").write_text(MEMBER)
    (tmp_path / "user.py").write_text(USER_OF_C)
    includes = f"-I{get_include()} -I{sysconfig.get_path('include')}"
    output = shell(
        f"PATH=$PATH:{folder}\n{building}"
        f"gcc -shared -fPIC {includes} kernel.c -o kernel.so\npython user.py\n",
        limit=120.0,
    )
    assert "rank 0 of 4\n" in output
    assert "in C: 0.0\n" in output
