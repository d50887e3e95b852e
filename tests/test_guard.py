"""Guards against hangs: a hang ends with its stacks, a busy machine is no hang."""

import itertools
import os
import subprocess
import sys

import guard
import launch
import pytest


@pytest.mark.parametrize(("running", "seconds"), [(1, 8), (2, 8), (4, 16), (8, 32)])
def test_a_limit_runs_slower_while_threads_queue(monkeypatch, running, seconds):
    clock = itertools.count()
    monkeypatch.setattr(guard, "PROCESSORS", 2)
    monkeypatch.setattr(guard.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(guard, "_running", lambda: running)
    watched = guard.Guard(8.0)
    looks = next(look for look in itertools.count(1) if watched.over)
    assert looks == seconds + 1


HANG = """
import threading
import pytest

@pytest.mark.timeout(0.1)
def test_that_hangs():
    threading.Event().wait()
"""


def test_a_test_that_hangs_ends_with_its_name_and_the_stacks(tmp_path):
    (tmp_path / "test_hanging.py").write_text(HANG)
    (tmp_path / "conftest.py").write_text((launch.TESTS / "conftest.py").read_text())
    options = ["-q", "-c", str(launch.ROOT / "pyproject.toml"), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={tmp_path}", str(tmp_path)]
    without_selection = {k: v for k, v in os.environ.items() if not k.startswith("ACP_TEST_")}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**without_selection, "PYTHONPATH": str(launch.TESTS)},
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "test_that_hangs: no end within 0.1 s" in done.stderr
    assert "in wait" in done.stderr
