"""A deque: elements of one type on one rank, put in and taken out at both ends."""

from acp_mpi.datastructs.sequence import Sequence
from acp_mpi.engine import _engine


class Deque(Sequence):
    """A row of elements of one type on one rank, in which both ends cost the same.

    `dtype` is int, float, bool, a letter of the struct module, "V13" for 13 raw bytes, or anything
    that numpy.dtype takes; `size` elements are zero at first; `rank` None is the calling one.
    Local to the caller (seed 000).
    """

    KIND = 2

    appendleft = _engine.SequenceHandle.push_front
    popleft = _engine.SequenceHandle.pop_front

    def push_front_ga(self, ga: int) -> None:
        """Put the element whose bytes are at address `ga` before the first one."""
        self._put_from("push_front_ga", 0, 0, ga, 1)

    appendleft_ga = push_front_ga
