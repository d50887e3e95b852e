"""Vector, list and counter of a rank of another node: one call is one round trip."""

from harness import Effort, Row

import acp_mpi as acp
from rows.calling import against_a_round_trip, by_rank_0, calls


def _rows(effort: Effort) -> list[Row]:
    vector, counter = acp.Vector("q", size=1000, rank=1), acp.Counter(rank=1)
    line = acp.List(dtype="q", rank=1)
    line.fill(10_000, 1)  # more than are taken out
    return against_a_round_trip(
        effort,
        [
            ("Vector.push_back", calls(vector.push_back, 1)),
            ("Vector.pop_back", calls(vector.pop_back)),
            ("Vector[i]", calls(vector.__getitem__, 7)),
            ("List.push_back", calls(line.push_back, 1)),
            ("List.pop_front", calls(line.pop_front)),
            ("Counter.next", calls(counter.next)),
        ],
    )


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    return by_rank_0(quick, _rows)
