"""The part of a rank in a collective: rounds of steps over numbered buffers, on paper.

A schedule is a list of rounds, and a round a list of steps. All messages of a round are under way
together; when they are over its local steps run in their order, then the next round begins.
Members are counted from 0 in the order of the list of ranks. A place is (buffer, first, count):
so many pieces of a buffer from there on; how long a piece is stands elsewhere (layout.py), and so
do ranks, dtypes and operations. So a schedule can be tried on paper for any number of members.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Place = tuple[int, int, int]
    Step = tuple[int, int, Place, Place, Place]
    Rounds = list[list[Step]]

IN, OUT, TMP, SUM, PART = range(5)
"""The input of the caller, which never changes; its output; three buffers of the library."""

SEND, RECEIVE, COPY, FOLD = range(4)
NOTHING = (0, 0, 0)
NOBODY = 0


def place(buffer: int, first: int = 0, count: int = 1) -> Place:
    """Name `count` pieces of a buffer."""
    return (buffer, first, count)


def send(peer: int, what: Place) -> Step:
    """Send a place to member `peer`."""
    return (SEND, peer, NOTHING, what, NOTHING)


def receive(peer: int, where: Place) -> Step:
    """Receive from member `peer` as much as the place holds."""
    return (RECEIVE, peer, where, NOTHING, NOTHING)


def copy(where: Place, what: Place) -> Step:
    """Copy one place to another of the same length, unless it is the same memory."""
    return (COPY, NOBODY, where, what, NOTHING)


def fold(where: Place, left: Place, right: Place) -> Step:
    """Set `where` to `left` op `right`; it may be one of them."""
    return (FOLD, NOBODY, where, left, right)


def among(members: Sequence[int], rounds: Rounds) -> Rounds:
    """Return the schedule of a part of the members, `members[i]` in place of i."""
    return [
        [(kind, members[p] if kind <= RECEIVE else p, a, b, c) for kind, p, a, b, c in steps]
        for steps in rounds
    ]


def with_buffers(new: dict[int, int], rounds: Rounds) -> Rounds:
    """Return the schedule with other buffers in place of those named."""

    def renamed(where: Place) -> Place:
        return (new.get(where[0], where[0]), where[1], where[2])

    return [
        [(kind, peer, renamed(a), renamed(b), renamed(c)) for kind, peer, a, b, c in steps]
        for steps in rounds
    ]


def without_bytes(rounds: Rounds) -> Rounds:
    """Return the schedule of the same messages, all of them empty."""
    nothing = place(TMP, 0, 0)
    return [
        [(kind, peer, nothing, nothing, nothing) for kind, peer, *_ in steps if kind <= RECEIVE]
        for steps in rounds
    ]


def spans(first: int, count: int, of: int) -> list[tuple[int, int]]:
    """Return [first, first + count) around the end of `of` pieces as one or two stretches."""
    first %= of
    head = min(count, of - first)
    return [(first, head), (0, count - head)] if count > head else [(first, head)]
