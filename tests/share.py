"""Which tests run.py leaves to the environment with the other MPI, or to a run beside this one."""

import zlib
from collections.abc import Callable

import launch
import pytest

ROADS = list(launch.ROADS)


def _select(
    config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], object]
) -> None:
    chosen, left = [], []
    for item in items:
        (chosen if wanted(item) else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = chosen


class Part:
    """One of several parts of the tests, which run at the same time; any test may be in any."""

    def __init__(self, text: str) -> None:
        self._part, self._parts = (int(number) for number in text.split("/"))

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect the tests of the other parts."""
        _select(
            config, items, lambda item: zlib.crc32(item.nodeid.encode()) % self._parts == self._part
        )


class Share:
    """Half of the tests that start jobs of their own; run.py says which half.

    Like the jobs of run.py, the combinations of ranks and road of each test are shared like the
    fields of a chessboard; a test without these is a field, too. What starts no job is tested in
    the first environment only.
    """

    def __init__(self, half: int) -> None:
        self._half = half

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect the tests of the other half."""
        _select(config, items, lambda item: item.get_closest_marker("mpi") or self._has(item))

    def _has(self, item: pytest.Item) -> bool:
        folder = item.path.parent.relative_to(launch.TESTS).as_posix()
        spec = getattr(item, "callspec", None)
        ranks, road = (spec.params.get(name) if spec else None for name in ("ranks", "road"))
        if folder == "hosts":
            return True
        if folder != "jobs":
            return self._half == 0
        row = ranks if isinstance(ranks, int) else 0
        column = ROADS.index(road) if road in ROADS else 0
        others = (
            [text for text in spec.id.split("-") if text not in (str(ranks), road)] if spec else []
        )
        colour = zlib.crc32(f"{item.originalname} {others}".encode())
        return (row + column + colour + self._half) % 2 == 0
