"""The rod that one program solves and another observes: its numbers, the frames, the two groups."""

import numpy as np

import acp_mpi as acp

RATE = 0.4  # time step over the square of the distance of cells; below 0.5 the scheme is stable
SLOTS = 4  # frames by which the solver may be ahead of the observer


def frame(cells: int) -> np.dtype[np.void]:
    """Return the type of a frame: a step, the temperatures of both ends, those of the cells."""
    return np.dtype([("step", "i8"), ("ends", "f8", 2), ("inside", "f8", cells)])


def places(cells: int) -> np.ndarray:
    """Return where the cells are on a rod from 0 to 1."""
    return np.arange(1, cells + 1) / (cells + 1)


def pair() -> tuple[int, int] | None:
    """Return the ranks that talk, of solver and observer; None if a group is missing."""
    first = {group.name: group.ranks[0] for group in acp.groups()}
    if "solver" not in first or "observer" not in first:
        return None
    return first["solver"], first["observer"]
