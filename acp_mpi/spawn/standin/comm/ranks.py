"""Who the members of a communicator are, as ranks of the job."""

from acp_mpi.engine import _engine
from acp_mpi.spawn.standin.original import MPI


def derived(context: int, *parts: object) -> int:
    """Return the context of a communicator that is made of one with `context`.

    All members find the same number without asking each other. The last bits are free: a
    communicator uses two contexts for messages.
    """
    text = repr((context, *parts)).encode()
    number = int.from_bytes(_engine.sha256(text)[:8], "little")
    return (number >> 2 | 1 << 20) & ~7


class Circle:
    """Ranks of the job in an order that all of them know, and the caller's place among them."""

    def __init__(self, ranks: tuple[int, ...], own: int | None) -> None:
        self.ranks = ranks
        self.place = {rank: place for place, rank in enumerate(ranks)}
        self.rank = MPI.UNDEFINED if own is None else self.place.get(own, MPI.UNDEFINED)
        self.sources = _engine.Sources(ranks)

    def __len__(self) -> int:
        return len(self.ranks)
