"""Whether elements can go from one map, set or multiset to another."""

from typing import TYPE_CHECKING, Any

from acp_mpi.datastructs.codecs import note_of
from acp_mpi.datastructs.local import Local
from acp_mpi.engine import _engine

if TYPE_CHECKING:
    from acp_mpi.datastructs.hashed_copies import HashedCopies


def alike(mine: "HashedCopies[Any, Any]", function: str, other: Any) -> "HashedCopies[Any, Any]":
    """Return the one that `other` is, or is the local part of. TypeError if it is another kind,
    has keys or values of other types, or is a part where the whole is wanted.
    """
    is_part = isinstance(other, Local) and not function.endswith(".swap")
    owner: Any = other._taker() if is_part or isinstance(other, _engine.ManyHandle) else None
    kind = type(mine).__name__
    if owner is None or owner._KIND != mine._KIND:
        raise TypeError(
            f"{function}: {other!r:.60} is not a {kind}, nor a part that could be taken; give a "
            f"{kind}, or put its elements in by update"
        )
    here, there = (
        [note_of(codec).decode() for codec in (one._key_codec, one._value_codec)]
        for one in (mine, owner)
    )
    if here != there:
        raise TypeError(
            f"{function}: keys and values are {', '.join(there)} there and {', '.join(here)} here; "
            "convert them first"
        )
    found: HashedCopies[Any, Any] = owner
    return found
