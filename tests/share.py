"""Which tests `make test` leaves to the environment with the other MPI."""

import zlib

import launch
import pytest

ROADS = list(launch.ROADS)


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
        left = [
            item for item in items if not item.get_closest_marker("mpi") and not self._has(item)
        ]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]

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
