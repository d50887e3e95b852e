"""Arrays of which each rank knows what every rank has."""

import numpy as np

import acp_mpi as acp


def data(count: int, dtype: str = "f8", seed: int = 0, rank: int | None = None) -> np.ndarray:
    rank = acp.rank() if rank is None else rank
    values = (np.arange(count) * 7 + rank * 13 + seed * 5) % 11 + 1
    return values.astype(dtype)


def everyone(count: int, dtype: str = "f8", seed: int = 0) -> list[np.ndarray]:
    return [data(count, dtype, seed, rank) for rank in range(acp.procs())]
