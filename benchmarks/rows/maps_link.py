"""A map of a rank of another node: one call is one round trip."""

from harness import US, Effort, Goal, Row, singles
from mpi4py import MPI

import acp_mpi as acp
from rows.sequences import calls


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    effort, rows = Effort.of(quick), []
    with acp.init(MPI.COMM_WORLD):
        word = acp.query_starter_ga(1)
        if acp.rank() == 0:
            m = acp.Map([1], key="q", value="d", rank=1)
            m[7] = 1.0
            for what, ours in [
                ("Map.get", calls(m.get, 7)),
                ("Map[k] = v", calls(m.__setitem__, 7, 2.0)),
            ]:
                a, b = singles(effort, ours, calls(acp.fetch_add8, word, 1), in_a_row=10)
                rows.append(
                    Row(what, "µs", a.median / US, "fetch_add8", b.median / US, Goal(speed=1 / 1.3))
                )
        acp.sync()
    return rows
