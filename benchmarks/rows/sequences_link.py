"""Vector and counter of a rank of another node: one call is one round trip."""

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
            vector, counter = acp.Vector("q", 1000, rank=1), acp.Counter(rank=1)
            for what, ours in [
                ("Vector.push_back", calls(vector.push_back, 1)),
                ("Vector.pop_back", calls(vector.pop_back)),
                ("Vector[i]", calls(vector.__getitem__, 7)),
                ("Counter.next", calls(counter.next)),
            ]:
                a, b = singles(effort, ours, calls(acp.fetch_add8, word, 1), in_a_row=10)
                rows.append(
                    Row(what, "µs", a.median / US, "fetch_add8", b.median / US, Goal(speed=1 / 1.3))
                )
        acp.sync()
    return rows
