"""A deque: elements of one type on one rank, put in and taken out at both ends."""

from acp_mpi.datastructs.sequence import Sequence
from acp_mpi.datastructs.sequence_copies import SequenceCopies
from acp_mpi.engine import _engine


class Deque(Sequence):
    """A row of elements of one type on one rank, in which both ends cost the same.

    `dtype` is int, float, bool, a letter of the struct module, "V13" for 13 raw bytes, or anything
    that numpy.dtype takes. The elements are `contents` at first, or `size` zeros; `rank` None is
    the calling one. Local to the caller (paper 000).
    """

    _KIND = 2

    appendleft = _engine.SequenceHandle.push_front
    popleft = _engine.SequenceHandle.pop_front

    appendleft_ga = SequenceCopies.push_front_ga
