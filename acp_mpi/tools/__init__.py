"""Programs that look at a job: `info` and `heap`."""
