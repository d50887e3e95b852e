"""NPB's kernels on all transports of the benchmarks: each run verifies itself, or the job fails."""

import json
import os
import sys
import threading

import launch
import pytest

sys.path.append(str(launch.ROOT / "benchmarks"))

from npb import TCP_ONLY, syscalls


@pytest.mark.parametrize(("kernel", "ranks"), [("is", 2), ("is", 4), ("cg", 2), ("cg", 4)])
def test_a_kernel_is_verified_on_all_transports(start, tmp_path, kernel, ranks):
    result = tmp_path / "rows.json"
    program = str(launch.ROOT / "benchmarks" / f"npb_{kernel}.py")
    command = [sys.executable, program, "--job", f"S{ranks}", "--quick", "--result", str(result)]
    job = start([*launch.mpiexec(ranks), *command], TCP_ONLY | {"NPB_CLASS": "S"})
    assert job.wait() == 0, job.output
    rows = json.loads(result.read_text())
    assert {"select and read"} < {row["against"] for row in rows}
    (processor,) = (row for row in rows if row["unit"] == "ms")
    counted = [row for row in rows if row["unit"] == "calls"]
    if "system calls are not counted: " in processor["note"]:
        assert not counted
    else:
        (calls,) = counted
        assert calls["ours"] >= ranks
        assert calls["other"] >= ranks
        assert calls["note"].startswith("acp_mpi ")


def test_all_threads_are_counted_and_the_counting_is_not():
    def call():
        for _ in range(1000):
            os.getppid()

    def later():
        begin.wait()
        call()

    begin = threading.Event()
    before = threading.Thread(target=later)
    before.start()
    calls = syscalls.SystemCalls()
    if calls.why_not:
        begin.set()
        before.join()
        pytest.skip(f"system calls cannot be counted here: {calls.why_not}")
    start = calls.so_far()
    assert calls.so_far() == start
    call()
    assert 1000 <= calls.so_far() - start < 1100
    after = threading.Thread(target=later)
    after.start()
    begin.set()
    before.join()
    after.join()
    # threads wait for each other by system calls
    assert 3000 <= calls.so_far() - start < 4000
    calls.close()


@pytest.mark.smoke
def test_where_system_calls_are_not_counted_the_reason_is_said(monkeypatch):
    monkeypatch.setattr(syscalls, "PLACES", (launch.ROOT / "nothing",))
    monkeypatch.delenv(syscalls.VARIABLE, raising=False)
    assert syscalls.environment() == {}
    calls = syscalls.SystemCalls()
    assert "no tracefs is mounted" in calls.why_not
    assert calls.so_far() == 0
    monkeypatch.setenv(syscalls.VARIABLE, "999999999")
    assert "perf_event_open: " in syscalls.SystemCalls().why_not


def test_an_mpi_that_does_not_use_tcp_is_refused(start):
    program = str(launch.ROOT / "benchmarks" / "npb_calls.py")
    job = start([*launch.mpiexec(2), sys.executable, program, "--job", "mpi", "--runs", "1"])
    assert job.wait() != 0, job.output
    assert "it does not use TCP" in job.output
