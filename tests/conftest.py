"""Collective tests run in step: every rank runs the same tests in the same order.

A test that fails on one rank ends the job: the failing rank wakes the others by a signal wherever
they wait, all print where they were, and nobody hangs.
"""

import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import hypothesis
import pytest

import acp_mpi as acp

sys.path.insert(0, str(Path(__file__).parent))

import launch
import support
from guard import Guard
from share import Part, Share
from watchdog import Watchdog

pytest_plugins = ["starting"]

GUARD = 90.0  # quiet seconds that ranks may drift apart; below the limit of a test
FAREWELL = 20.0  # seconds in which all ranks print after a failure

# Ranks draw the same examples, and no folder is written by several of them.
hypothesis.settings.register_profile("collective", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("collective")


class Company:
    """The ranks of this job, and whether a test has failed on any of them."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.in_test = self.failed = self.failed_elsewhere = False

    def join(self) -> None:
        signal.signal(signal.SIGUSR2, self._on_alarm)
        self.pids = acp.allgather(os.getpid())

    def alarm(self) -> None:
        """Tell the others, once, that a test has failed here."""
        if self.pids and not (self.failed or self.failed_elsewhere):
            for pid in self.pids:
                if pid != os.getpid():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGUSR2)
        self.failed = True

    def check(self) -> None:
        if self.failed_elsewhere and not self.failed:
            pytest.fail("this test failed on another rank; here it was at the lines above")

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        self.failed_elsewhere = True
        if self.in_test:
            self.check()


company = Company()


def pytest_configure(config: pytest.Config) -> None:
    launch.take_place()
    if not config.getoption("--with-mpi", False):  # ranks start no jobs, and MPI ends them
        launch.end_in_order()
    dog = Watchdog()
    dog.start()
    config.pluginmanager.register(dog)
    if half := os.environ.get("ACP_TEST_SHARE"):
        config.pluginmanager.register(Share(int(half)))
    if part := os.environ.get("ACP_TEST_PART"):
        config.pluginmanager.register(Part(part))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the marker `smoke` with the cases of a test that it names."""
    for item in items:
        mark = item.get_closest_marker("smoke")
        spec = getattr(item, "callspec", None)
        if mark and spec and spec.id not in mark.args:
            item.own_markers.remove(mark)


def pytest_collection_finish() -> None:
    """Spare each collection of garbage the thousands of tests: they take it a tenth of a second."""
    gc.freeze()


@pytest.fixture(scope="session")
def job() -> Iterator[None]:
    acp.init()
    company.join()
    yield
    if not company.failed:
        acp.finalize()


def meet() -> None:
    """Wait for all ranks; a rank that does not come fails the test."""
    guard = Guard(GUARD)
    while True:
        try:
            return acp.sync(timeout=1.0)
        except TimeoutError:
            if guard.over:
                raise


@pytest.fixture
def far_kind() -> None:
    """Have memory that no processor can load, as a device's."""
    import far

    far.begin()


@pytest.fixture(autouse=True)
def in_step(request: pytest.FixtureRequest) -> Iterator[None]:
    """Begin and end each collective test together; an error that nobody completed fails it."""
    if request.node.get_closest_marker("mpi") is None:
        yield
        return
    request.getfixturevalue("job")
    meet()
    yield
    if not company.failed:
        meet()
        support.release()


def _stage(item: pytest.Item) -> Iterator[None]:
    """Let the alarm through where pytest takes an exception for the outcome of the test."""
    company.in_test = True
    try:
        company.check()
        return (yield)
    finally:
        company.in_test = False


for _name in ("setup", "call", "teardown"):
    globals()[f"pytest_runtest_{_name}"] = pytest.hookimpl(wrapper=True)(_stage)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed and item.get_closest_marker("mpi"):
        company.alarm()
    return report


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """After a failure leave together, without the collective end that a job in order has."""
    if company.failed and company.pids:
        from mpi4py import MPI

        sys.stdout.flush()
        meeting, deadline = MPI.COMM_WORLD.Ibarrier(), time.monotonic() + FAREWELL
        while not meeting.Test() and time.monotonic() < deadline:
            time.sleep(0.01)
        os._exit(1)
