"""The script for a machine with a GPU works: here the stand-in answers it."""

import os
import re
import subprocess
from pathlib import Path

import launch
import pytest

SECTIONS = (
    "machine",
    "the driver without the library",
    "the CUDA kind",
    "packages with device arrays",
    "benchmarks",
    "end",
)


@pytest.mark.slow
def test_the_script_for_a_machine_with_a_gpu_runs_to_its_end(tmp_path: Path):
    command = ["bash", str(launch.TESTS / "device" / "run.sh")]
    environment = {**os.environ, "OUT": str(tmp_path)}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    report = (tmp_path / "device-report.txt").read_text()
    assert [name for name in SECTIONS if f"==== {name} (" not in report] == [], done.stdout
    assert "ends with 0" in report, report
    assert not re.search(r" NO$|it hung|error:", report, re.MULTILINE), report
