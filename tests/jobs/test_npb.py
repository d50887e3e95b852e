"""NPB's kernels on all transports of the benchmarks: each run verifies itself, or the job fails."""

import json
import sys

import launch
import pytest

sys.path.append(str(launch.ROOT / "benchmarks"))

from npb import TCP_ONLY


@pytest.mark.parametrize(("kernel", "ranks"), [("is", 2), ("is", 4), ("cg", 2), ("cg", 4)])
def test_a_kernel_is_verified_on_all_transports(start, tmp_path, kernel, ranks):
    result = tmp_path / "rows.json"
    program = str(launch.ROOT / "benchmarks" / f"npb_{kernel}.py")
    command = [sys.executable, program, "--job", f"S{ranks}", "--quick", "--result", str(result)]
    job = start([*launch.mpiexec(ranks), *command], TCP_ONLY | {"NPB_CLASS": "S"})
    assert job.wait() == 0, job.output
    assert {"select and read"} < {row["against"] for row in json.loads(result.read_text())}


def test_an_mpi_that_does_not_use_tcp_is_refused(start):
    program = str(launch.ROOT / "benchmarks" / "npb_calls.py")
    job = start([*launch.mpiexec(2), sys.executable, program, "--job", "mpi", "--runs", "1"])
    assert job.wait() != 0, job.output
    assert "it does not use TCP" in job.output
