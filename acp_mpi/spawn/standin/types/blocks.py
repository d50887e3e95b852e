"""The parts that a collective gives to ranks, or gets from them, as one run of bytes."""

from __future__ import annotations

from acp_mpi.spawn.standin.types.buffers import Elements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Blocks:
    """Parts of a buffer, one for each rank; `sizes` are their bytes as they travel."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts
        self.sizes = [part.bytes for part in parts]
        self._run = _in_one_run(parts)

    def packed(self) -> Any:
        """Return the bytes of all parts: where they are, or a copy."""
        if self._run is not None:
            return self._run
        return b"".join(part.pack() for part in self.parts)

    def room(self) -> Any:
        """Return where the bytes of all parts are to arrive; `land` brings them into place."""
        return bytearray(sum(self.sizes)) if self._run is None else self._run

    def land(self, room: Any) -> None:
        """Put into place what has arrived."""
        if room is self._run:
            return
        view, at = memoryview(room), 0
        for part, size in zip(self.parts, self.sizes, strict=True):
            part.unpack(view[at : at + size])
            at += size


def _in_one_run(parts: Sequence[Any]) -> memoryview | None:
    """Return the memory of parts that lie one after the other, as whole elements."""
    filled = [part for part in parts if part.bytes] or list(parts[:1])
    first = filled[0]
    if not isinstance(first, Elements):
        return None
    count = 0
    for part in filled:
        if part.displacement != first.displacement + count:
            return None
        count += part.count
    return first.part(count, first.displacement).direct
