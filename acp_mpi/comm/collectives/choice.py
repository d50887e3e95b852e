"""Which schedule a collective takes, by its size and the number of members.

Each function returns the rounds of one member and, of each buffer, how many elements its pieces
have. All members must choose alike: only what all know decides.
"""

from __future__ import annotations

from itertools import accumulate, zip_longest
from operator import add

from acp_mpi.comm.collectives import (
    between,
    bruck,
    doubling,
    halving,
    pairwise,
    ring,
    tree,
)
from acp_mpi.comm.collectives.schedule import (
    IN,
    NOTHING,
    OUT,
    PART,
    RECEIVE,
    SUM,
    TMP,
    copy,
    place,
    receive,
    send,
    without_bytes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from acp_mpi.comm.collectives.schedule import Place, Rounds

    Sizes = dict[int, Sequence[int]]
    Paper = tuple[Rounds, Sizes]
    Part = tuple[Rounds, Sizes, Sizes]  # the last: where its pieces of IN and OUT begin

# Bytes up to which few rounds count for more than few bytes.
BCAST_TREE = 64 << 10
BCAST_CHAIN = 8 << 20
REDUCE_TREE = 16 << 10
ALLREDUCE_DOUBLING = 16 << 10
ALLREDUCE_HALVING = 1 << 20
GATHER_TREE = 2 << 10
ALLGATHER_BRUCK = 8 << 10
ALLGATHER_STRAIGHT = 512 << 10
ALLTOALL_BRUCK = 256
REDUCE_SCATTER_ORDERED = 256 << 10

CHAIN_PIECE = 1 << 20
WINDOW = 4 << 20  # bytes of a call that are carried out at a time, or this for each member:
MEMBER_WINDOW = 1 << 20
_UNIT = 64  # bytes that the first part of a piece has more for each part
FEW = 8  # number of members up to which straight messages are as good as any tree


def even(count: int, pieces: int) -> list[int]:
    """Divide `count` elements into `pieces`, the first ones one longer."""
    size, more = divmod(count, pieces)
    return [size + 1] * more + [size] * (pieces - more)


def windows(n: int, count: int, width: int, commutes: bool) -> list[int]:
    """Divide a long fold into some that follow one another, so that their buffers are short.

    Their memory is at hand, and in the caches; that of a long one would be new for each call.
    """
    window = max(WINDOW, n * MEMBER_WINDOW)
    long = n > 1 and commutes and count * width > 2 * window
    return even(count, -(-count * width // window)) if long else [count]


def parts(size: int, most: int) -> list[int]:
    """Divide a piece into parts of about `most`; the length of the first says how many there are.

    So members that mean different lengths find out, and do not wait for parts that never come.
    """
    count = -(-size // most)
    first = most + _UNIT * count
    return [size] if count < 2 or size < first else [first, *even(size - first, count - 1)]


def in_parts(n: int, paper: Paper, short: bool, width: int = 1) -> Sequence[Paper | Part]:
    """Return papers that follow one another, each for the next part of every piece.

    So the buffers of each are short, also where the pieces are very long. Where nobody needs that
    (`short`), and all messages of a pair of members are in one round, it is one paper.
    """
    rounds, sizes = paper
    most = max(max(WINDOW // n, MEMBER_WINDOW) // (width or 1), 1)
    cut = {buffer: [parts(size, most) for size in pieces] for buffer, pieces in sizes.items()}
    count = max(len(those) for each in cut.values() for those in each)
    if count == 1:
        return [paper]
    messages = [step[:2] for one in rounds for step in one if step[0] <= RECEIVE]
    if not short and len(set(messages)) == len(messages):
        return [_side_by_side(rounds, cut)]
    papers: list[Paper | Part] = []
    begin: Sizes = {b: list(accumulate(sizes[b][:-1], initial=0)) for b in (IN, OUT) if b in sizes}
    for k in range(count):
        now: Sizes = {
            b: [those[k] if k < len(those) else 0 for those in each] for b, each in cut.items()
        }
        papers.append((rounds, now, begin))
        begin = {b: list(map(add, at, now[b])) for b, at in begin.items()}
    return papers


def _side_by_side(rounds: Rounds, cut: Mapping[int, list[list[int]]]) -> Paper:
    """Return a schedule whose pieces are parts, all messages of which are under way together."""
    first = {b: list(accumulate(map(len, each), initial=0)) for b, each in cut.items()}

    def places(whole: Place) -> list[Place]:
        buffer, piece, count = whole
        those = range(first[buffer][piece], first[buffer][piece + count]) if count else ()
        return [place(buffer, at) for at in those]

    steps = [
        [
            (kind, peer, a, b, c)
            for kind, peer, *whole in one
            for a, b, c in zip_longest(*map(places, whole), fillvalue=NOTHING)
        ]
        for one in rounds
    ]
    return steps, {b: [part for those in each for part in those] for b, each in cut.items()}


def _alike(rounds: Rounds, sizes: Sequence[int], *buffers: int) -> Paper:
    return rounds, dict.fromkeys(buffers, sizes)


def barrier(n: int, r: int) -> Paper:
    """No bytes."""
    return doubling.barrier(n, r), {TMP: [0]}


def is_chain(n: int, count: int, width: int) -> bool:
    """Return whether `bcast` is a chain of pieces."""
    size = count * width
    return n > 2 and size > BCAST_TREE and (n <= 4 or size > BCAST_CHAIN)


def chain(count: int, width: int) -> list[int]:
    """Return the pieces of that."""
    return even(count, max(1, count * width // CHAIN_PIECE))


def bcast(n: int, r: int, root: int, count: int, width: int) -> Paper:
    """`count` elements of `width` bytes."""
    if is_chain(n, count, width):
        pieces = chain(count, width)
        return _alike(ring.chain(n, r, root, len(pieces)), pieces, OUT)
    if n <= 2 or count * width <= BCAST_TREE:
        return _alike(tree.bcast(n, r, root), [count], OUT)
    return _alike(ring.bcast(n, r, root), even(count, n), OUT)


def copied(paper: Paper, is_chain: bool) -> Paper:
    """Extend a bcast's at its root so that OUT is a copy of IN; that of a chain piece by piece."""
    rounds, sizes = paper
    copies = [copy(place(OUT, i), place(IN, i)) for i in range(len(sizes[OUT]))]
    if is_chain:
        rounds = [[*one, *copies[i : i + 1]] for i, one in enumerate(rounds)]
    else:
        rounds = [list(copies), *rounds]
    return rounds, {**sizes, IN: sizes[OUT]}


def met(n: int, r: int, root: int, paper: Paper) -> Paper:
    """Extend a plan so that no member goes on before all have come."""
    rounds, sizes = paper
    rounds = rounds + without_bytes(tree.reduce(n, r, root, True))
    if n > 2:  # else the root is all that the other one waits for
        rounds += without_bytes(tree.bcast(n, r, root))
    return rounds, sizes


def reduce(n: int, r: int, root: int, count: int, width: int, commutes: bool) -> Paper:
    """One that does not commute is never divided."""
    if n <= 2 or not commutes or count * width <= REDUCE_TREE:
        return _alike(tree.reduce(n, r, root, commutes), [count], IN, OUT, TMP, SUM)
    sizes = even(count, n)
    rounds = pairwise.reduce_scatter_frugal(n, r)
    to = OUT if r == root else SUM
    placed: Rounds = [
        [(k, p, _own(a, r, to), _own(b, r, to), _own(c, r, to)) for k, p, a, b, c in steps]
        for steps in rounds
    ]
    if r == root:
        placed.append([receive(i, place(OUT, i)) for i in range(n) if i != r])
    else:
        placed.append([send(root, place(SUM, r))])
    return placed, {IN: sizes, OUT: sizes, SUM: sizes, TMP: [sizes[r]]}


def _own(where: Place, r: int, to: int) -> Place:
    return place(to, r) if where[0] == OUT else where


def allreduce(n: int, r: int, count: int, width: int, commutes: bool) -> Paper:
    """One that does not commute is never divided."""
    if n == 1 or not commutes or count * width <= ALLREDUCE_DOUBLING:
        return _alike(doubling.allreduce(n, r), [count], IN, OUT, TMP)
    power = halving.pieces(n)
    if n == 2 or (count * width <= ALLREDUCE_HALVING and power == n):
        return _alike(halving.allreduce(n, r), even(count, power), IN, OUT, TMP)
    return _alike(ring.allreduce(n, r), even(count, n), IN, OUT, TMP)


def scan(n: int, r: int, count: int, exclusive: bool) -> Paper:
    """In one piece."""
    return _alike(doubling.scan(n, r, exclusive), [count], IN, OUT, TMP, SUM)


def gather(n: int, r: int, root: int, counts: Sequence[int], width: int, even: bool) -> Paper:
    """`even`: all know that the counts are equal; else only the root need know the others'."""
    if even and n > FEW and counts[r] * width <= GATHER_TREE:
        return tree.gather(n, r, root), {IN: [counts[r]], OUT: counts, TMP: counts}
    return pairwise.gather(n, r, root), {IN: [counts[r]], OUT: counts}


def scatter(n: int, r: int, root: int, counts: Sequence[int], width: int, even: bool) -> Paper:
    """As `gather`."""
    if even and n > FEW and counts[r] * width <= GATHER_TREE:
        return tree.scatter(n, r, root), {IN: counts, OUT: [counts[r]], TMP: counts}
    return pairwise.scatter(n, r, root), {IN: counts, OUT: [counts[r]]}


def allgather(n: int, r: int, counts: Sequence[int], width: int, even: bool) -> Paper:
    """All know all counts."""
    total = sum(counts) * width
    if even and n > 2 and total <= ALLGATHER_BRUCK:
        return bruck.allgather(n, r), {IN: [counts[r]], OUT: counts, TMP: counts}
    if n <= FEW and total <= ALLGATHER_STRAIGHT:
        return pairwise.allgather(n, r), {IN: [counts[r]], OUT: counts}
    return ring.allgather(n, r), {IN: [counts[r]], OUT: counts}


def alltoall(
    n: int, r: int, given: Sequence[int], taken: Sequence[int], width: int, even: bool
) -> Paper:
    """Each knows what it gives and takes; `even`: these are all equal on all."""
    if even and n > FEW and given[0] * width <= ALLTOALL_BRUCK:
        return bruck.alltoall(n, r), {IN: given, OUT: taken, TMP: taken, SUM: given}
    return pairwise.alltoall(n, r), {IN: given, OUT: taken}


def reduce_scatter(n: int, r: int, counts: Sequence[int], width: int, commutes: bool) -> Paper:
    """All know all counts."""
    own = counts[r]
    if not commutes or sum(counts) * width <= REDUCE_SCATTER_ORDERED:
        rounds = pairwise.reduce_scatter(n, r)
        return rounds, {IN: counts, OUT: [own], TMP: [own] * n}
    return pairwise.reduce_scatter_frugal(n, r), {IN: counts, OUT: [own], TMP: [own]}


def between_groups(
    kind: str,
    sides: tuple[int, int],
    r: int,
    root: int,
    given: Sequence[int],
    taken: Sequence[int],
) -> Paper:
    """Between two groups: what this member gives and takes, in pieces.

    Its operand of allgather is a piece of the operands of all of its group.
    """
    own, other = sides
    if kind in ("bcast", "scatter", "gather", "reduce"):
        rounds = getattr(between, kind)(own, other, r, root)
    else:
        rounds = getattr(between, kind)(own, other, r)
    if kind == "allgather":
        return rounds, {IN: [given[r]], OUT: taken, TMP: given}
    if kind == "reduce_scatter":
        whole = [sum(given)]
        return rounds, {IN: whole, SUM: whole, PART: whole, OUT: [taken[r]], TMP: taken}
    return rounds, {IN: given, OUT: taken, TMP: given, SUM: given}
