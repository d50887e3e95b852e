"""The programs in benchmarks/: what they say of themselves, and what they do when a side fails."""

import sys

import launch
from support import case

# Those that are started by hand, not by others.
BENCHMARKS = sorted(
    path
    for path in (launch.ROOT / "benchmarks").glob("*.py")
    if 'if __name__ == "__main__"' in (text := path.read_text())
    and ("import argparse" in text or "from program import main" in text)
)


def test_each_program_explains_itself_and_refuses_what_it_does_not_know(start):
    assert len(BENCHMARKS) > 15
    for path in BENCHMARKS:
        with case(path.stem):
            job = start([sys.executable, str(path), "--help"])
            assert job.wait() == 0, job.output
            assert "usage:" in job.output
            job = start([sys.executable, str(path), "--nothing"])
            assert job.wait() == 2, job.output


def test_a_job_that_is_not_there_is_a_usage_error_beside_one_that_is(start):
    program = str(launch.ROOT / "benchmarks" / "heap.py")
    job = start([sys.executable, program, "--only", "fragments", "--only", "nothing"])
    assert job.wait() == 2, job.output
    assert "--only nothing" in job.output


def test_a_side_that_fails_is_a_failure_of_the_benchmark(start):
    program = str(launch.ROOT / "benchmarks" / "spawning.py")
    job = start([sys.executable, program, "--quick"], {"ACP_JOIN_TIMEOUT": "never"})
    assert job.wait() == 1, job.output
    assert job.output.count("FAILED") == 3 + ("left out" not in job.output)
    assert "by our Spawn: exit status" in job.output
    assert "ACP_JOIN_TIMEOUT" in job.output
