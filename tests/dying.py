"""How a rank dies while the others are where a test wants them."""

import contextlib

import acp_mpi as acp


def sync_before_the_end_of(victim: int) -> None:
    """Sync; the victim returns when all others have: in sync they would hear of its death."""
    acp.sync()
    count = acp.query_starter_ga(victim)
    if acp.rank() == victim:
        acp.wait_until(count, "==", acp.procs() - 1)
        return
    with contextlib.suppress(acp.PeerLostError):  # it may die before it answers the last of them
        acp.fetch_add8(count, 1)
