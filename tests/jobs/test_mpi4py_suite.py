"""mpi4py's own tests, unmodified, as the specification of what takes the place of its Spawn."""

import re

import mpi4py_suite
import pytest

pytestmark = pytest.mark.campaign
LIMIT = 900.0


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mpi4py")


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("test", ["spawn", "dynproc"])
def test_what_mpi_passes_passes_on_ours(folder, test, ranks):
    good, said = mpi4py_suite.run(folder, test, ranks, False, LIMIT)
    assert good, said
    ran, skipped = (
        sum(map(int, re.findall(what, said))) for what in (r"Ran (\d+)", r"skipped=(\d+)")
    )
    alone = ranks == 1 and test == "dynproc"  # mpi4py skips all of that
    assert alone or ran - skipped >= ran // 2 > 0, said


@pytest.mark.timeout(2000)
@pytest.mark.parametrize("ranks", [1, 2])
def test_what_starts_nothing_is_as_it_was(folder, ranks):
    failed = {}
    for test in mpi4py_suite.unmodified(mpi4py_suite.fetch(folder)):
        good, said = mpi4py_suite.run(folder, test, ranks, False, LIMIT)
        print(test, "passed" if good else "FAILED", flush=True)
        if not good:
            failed[test] = said
    assert not failed, "\n".join(f"{test}:\n{said}" for test, said in failed.items())


@pytest.mark.timeout(1000)
def test_futures_work_as_on_mpi(folder):
    good, said = mpi4py_suite.run(folder, "futures", 1, False, LIMIT)
    assert good, said


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("test", mpi4py_suite.JOINED)
def test_communicators_of_ours_pass_the_tests_of_mpi4py_s(folder, test, ranks):
    good, said = mpi4py_suite.run(folder, f"joined:{test}", ranks, False, LIMIT)
    assert good, said
