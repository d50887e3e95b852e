"""What other tests of jobs rely on: a job is over when all of its processes are."""

import launch
import pytest


@pytest.mark.smoke
def test_a_job_passes_when_its_last_process_has_ended(passes, tmp_path):
    passes(["sh", "-c", f"(sleep 0.2; touch '{tmp_path}/late') & exit 0"])
    assert (tmp_path / "late").exists()


def test_who_is_left_of_a_job_is_named_and_killed(start):
    job = start(["sh", "-c", "sleep 1000 & exit 0"])
    assert job.wait() == 0
    with pytest.raises(launch.Hang, match="sleep 1000"):
        job.wait_for_all(0.1)
    launch.until(lambda: not job.processes())
