"""The plate: its temperatures at the start, and the rows that each rank has."""

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """The rows that a rank computes: `first` to `last` - 1. The edges of the plate stay."""

    first: int
    last: int
    plate: tuple[int, int]

    @property
    def held(self) -> slice:
        """Its rows and one more on either side."""
        return slice(self.first - 1, self.last + 1)

    @property
    def saved(self) -> slice:
        """The rows that it writes to files: its own, and an edge of the plate beside them."""
        height = self.plate[0]
        return slice(
            0 if self.first == 1 else self.first,
            height if self.last == height - 1 else self.last,
        )

    @property
    def saved_of_held(self) -> slice:
        """The same, in the array of the rows held."""
        return slice(self.saved.start - self.held.start, self.saved.stop - self.held.start)


def rows_of(place: int, ranks: int, plate: tuple[int, int]) -> Rows:
    """Return the rows of the rank with that place among all."""
    inner = plate[0] - 2
    return Rows(1 + inner * place // ranks, 1 + inner * (place + 1) // ranks, plate)


def initial(plate: tuple[int, int]) -> np.ndarray:
    """Return the plate at step 0: two hot discs; its edges are, and stay, cold."""
    height, width = plate
    y, x = np.ogrid[0:height, 0:width]
    y, x = y / (height - 1), x / (width - 1)
    field = np.zeros(plate)
    field[(y - 0.3) ** 2 + (x - 0.3) ** 2 < 0.03] = 1.0
    field[(y - 0.65) ** 2 + (x - 0.7) ** 2 < 0.02] = 0.7
    field[0] = field[-1] = field[:, 0] = field[:, -1] = 0.0
    return field
