"""Programs that start jobs."""
