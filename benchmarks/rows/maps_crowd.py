"""All ranks at one map: their calls a second together, against those of one rank alone."""

from itertools import count

from harness import Goal, Row
from mpi4py import MPI

import acp_mpi as acp
from rows.sequences_crowd import M, both


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    seconds, rows = 0.02 if quick else 0.2, []
    with acp.init(MPI.COMM_WORLD):
        m = acp.bcast(acp.Map([0], key="q", value="d", slots=1 << 22) if acp.rank() == 0 else None)
        new, old = count(acp.rank() << 40), count()
        m.insert(-1, 1.0)

        def insert_and_remove() -> None:
            key = next(new)
            m.insert(key, 1.0)
            m.remove(key)

        def find() -> None:
            m.get(next(old))

        for what, call, least in [
            ("Map.get", find, 0.9),
            ("Map.insert + remove", insert_and_remove, 0.8),
        ]:
            all_of_them, one = both(call, seconds)
            rows.append(
                Row(f"{what}, {acp.procs()} ranks", "M/s", all_of_them / M, "one rank", one / M,
                    Goal(speed=least), rate=True)
            )  # fmt: skip
        acp.sync()
    return rows
