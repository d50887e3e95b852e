"""End the process of a test that hangs, with the stacks of all its threads."""

import faulthandler
import os
import threading
import time
from collections.abc import Iterator

import pytest
from guard import Guard

LIMIT = 120.0  # quiet seconds for one test, unless its marker `timeout` says another number


class Watchdog(threading.Thread):
    """Ends this process, with the stacks of all its threads, when a test takes too long."""

    def __init__(self) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._stderr = os.dup(2)  # tests capture 2
        self._test: tuple[str, Guard] | None = None

    def run(self) -> None:
        """Look at the test that runs, once a second."""
        while True:
            time.sleep(1.0)
            if (test := self._test) and test[1].over:
                text = f"\n{test[0]}: no end within {test[1].limit:g} s of a quiet machine\n"
                os.write(self._stderr, text.encode())
                faulthandler.dump_traceback(self._stderr, all_threads=True)
                os._exit(1)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch a test with all that its fixtures do."""
        marker = item.get_closest_marker("timeout")
        self._test = item.nodeid, Guard(marker.args[0] if marker else LIMIT)
        try:
            return (yield)
        finally:
            self._test = None
