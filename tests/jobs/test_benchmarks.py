"""The programs in benchmarks/: what they say of themselves, and what they do when a side fails."""

import sys

import launch
from support import case

sys.path.append(str(launch.ROOT / "benchmarks"))

import spawning

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
    assert job.output.count("FAILED") == 3 + ("Open MPI" in job.output)
    assert "by our Spawn: exit status" in job.output
    assert "ACP_JOIN_TIMEOUT" in job.output


def test_spawning_measures_both_mpis_in_turn_each_against_its_own(monkeypatch):
    seconds = {
        ("p", spawning.OF_MPI): 8.0,
        ("p", spawning.SPAWN): 2.0,
        ("p", spawning.AT_ONCE): 1.0,
        ("q", spawning.OF_MPI): 3.0,
        ("q", spawning.SPAWN): 6.0,
        ("q", spawning.AT_ONCE): 4.0,
    }
    begun = []

    def once(python, way, task, groups, children):
        begun.append((python, way))
        assert task == ("start all" if way == spawning.AT_ONCE else "start")
        assert (groups, children) == (4, 1)
        return {"": seconds[python, way]}

    monkeypatch.setattr(spawning, "once", once)
    goals = {spawning.SPAWN: 1.0, spawning.AT_ONCE: 0.25}
    rows = spawning.compare({"mpich": "p", "openmpi": "q"}, 4, 1, goals, 6)
    rounds = [begun[first : first + 6] for first in range(0, 36, 6)]
    assert all(sorted(each) == sorted(seconds) for each in rounds)
    assert {each[0] for each in rounds} == set(seconds)
    assert [(row.ours, row.against, row.other, row.reached) for row in rows] == [
        (2.0, "MPICH's Spawn", 8.0, True),
        (1.0, "MPICH's Spawn", 8.0, True),
        (6.0, "Open MPI's Spawn", 3.0, False),
        (4.0, "Open MPI's Spawn", 3.0, False),
    ]


def test_the_other_python_must_be_there_and_have_another_mpi(start):
    program = str(launch.ROOT / "benchmarks" / "spawning.py")
    for other, reason in (("/nothing", "no such Python"), (sys.executable, "the same MPI")):
        job = start([sys.executable, program, "--other", other])
        assert job.wait() == 2, job.output
        assert reason in job.output
