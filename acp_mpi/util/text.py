"""Words for what is counted."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def ranges(ranks: Iterable[int]) -> str:
    """Say ranks as ranges: 0-3, 7."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)
