"""Objects that ranks offer under names, and numbers that all ranks give each other.

Objects are pickled into global memory of the rank that offers them; only their address and length
travel through the job's board.
"""

import pickle
import struct
from typing import Any

from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError
from acp_mpi.rooms import on_close, on_reset

_PAIR = struct.Struct("<QQ")
_NUMBER = struct.Struct("<q")
_EXCHANGE = 1  # barriers of the library's own collectives

_offered: dict[str, Any] = {}  # name -> the block behind it


def _block_of(x: Any) -> Any:
    data = pickle.dumps(x, pickle.HIGHEST_PROTOCOL)
    block = _engine.allocate(len(data))
    memoryview(block)[:] = data
    return block


def _object_at(ga: int, size: int) -> Any:
    data = bytearray(size)
    _engine.get(ga, data)
    return pickle.loads(data)


def _key(name: str) -> tuple[int, int]:
    if not isinstance(name, str):
        raise TypeError(f"a name is a str, not {type(name).__name__}")
    return _PAIR.unpack(_engine.sha256(name.encode())[:16])


def publish(name: str, x: Any) -> None:
    """Make object `x` available to every rank under `name`; a later one replaces it.

    Local: nobody waits. `x` is pickled; addresses are ints. Kept until `reset` or `finalize`.
    """
    low, high = _key(name)
    block = _block_of(x)
    _engine.board_put(low, high, block.ga, len(block), None)
    _offered[name] = block


def lookup(name: str, timeout: float | None = None) -> Any:
    """Return the object that some rank has published under `name`; waits until one has.

    TimeoutError after `timeout` seconds; PeerLostError if the rank that offers it has died.
    """
    low, high = _key(name)
    while True:
        ga, size = _engine.board_get(low, high, timeout)
        try:
            return _object_at(ga, size)
        except AddressError:
            # It was replaced while this one was under way.
            if _engine.board_get(low, high, timeout) == (ga, size):
                raise


def numbers(function: str, x: int) -> list[int]:
    """Return the number that each rank gives, by their posts: collectives may be under way."""
    _engine.put(_engine.post_ga(_engine.rank()), _NUMBER.pack(x))
    _engine.meet(function, _EXCHANGE, None)
    words = bytearray(_NUMBER.size)
    result = []
    for rank in _engine.together():
        _engine.get(_engine.post_ga(rank), words)
        result.append(_NUMBER.unpack(words)[0])
    _engine.meet(function, _EXCHANGE, None)
    return result


@on_reset
@on_close
def _withdraw() -> None:
    _offered.clear()
