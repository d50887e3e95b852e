"""A map of a rank of another node: one call is one round trip."""

from harness import Effort, Row

import acp_mpi as acp
from rows.calling import against_a_round_trip, by_rank_0, calls


def _rows(effort: Effort) -> list[Row]:
    m = acp.Map(ranks=[1], key="q", value="d", rank=1)
    m[7] = 1.0
    contests = [
        ("Map.get", calls(m.get, 7)),
        ("Map[k] = v", calls(m.__setitem__, 7, 2.0)),
        ("Map.add", calls(m.add, 7, 1.0)),
    ]
    return against_a_round_trip(effort, contests)


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    return by_rank_0(quick, _rows)
