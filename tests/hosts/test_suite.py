"""The tests of the basic layer as jobs that span hosts."""

import pytest
import run

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]

RMA = run.IN_JOB._replace(tests=("rma", "test_infrastructure.py"))
QUICK = ["-k", "not any_size and not numpy_stores"]  # those make thousands of round trips


@pytest.mark.parametrize("hosts", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_basic_layer_works_across_hosts(connect, hosts):
    good, text = run.run(run.Work(RMA, 4, network=connect(hosts)), "matrix", [])
    assert good, text
    assert "passed" in text


@pytest.mark.slow
@pytest.mark.timeout(2000)
def test_the_basic_layer_works_over_slow_and_lossy_wires(two_hosts, monkeypatch):
    monkeypatch.setitem(run.LIMITS, "matrix", 1800.0)
    for host, delay in zip(two_hosts, (0.05, 0.0), strict=True):  # of a round trip in all
        two_hosts.shape(host, delay=delay, loss=0.01)
    good, text = run.run(run.Work(RMA, 2, network=two_hosts), "matrix", QUICK)
    assert good, text
    assert "passed" in text
