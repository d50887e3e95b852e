"""How elements of MPI's datatypes are combined: by the engine, or by MPI's own operations."""

from __future__ import annotations

from acp_mpi.comm.collectives.buffers import Buffer
from acp_mpi.comm.collectives.folds import Folding
from acp_mpi.comm.collectives.operations import operation_of
from acp_mpi.spawn.standin.family import MPI
from acp_mpi.spawn.standin.types.buffers import Elements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The operations that MPI allows on each kind of elements; MPI itself refuses all others.
_NUMBERS = (MPI.SUM, MPI.PROD, MPI.MIN, MPI.MAX)
_ON_KINDS = {
    "i": (*_NUMBERS, MPI.BAND, MPI.BOR, MPI.BXOR, MPI.LAND, MPI.LOR, MPI.LXOR),
    "f": _NUMBERS,
    "c": (MPI.SUM, MPI.PROD),
    "b": (MPI.LAND, MPI.LOR, MPI.LXOR),
}
_ON_KINDS["u"] = _ON_KINDS["i"]
_WITH_RULES_OF_THEIR_OWN = (MPI.BYTE, MPI.PACKED, MPI.LOGICAL)


class _ByMPI:
    """An operation that folds memory with elements of a datatype."""

    def __init__(self, op: Any, datatype: Any, extent: int) -> None:
        self._op, self._datatype, self._extent = op, datatype, extent

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _ByMPI)
            and other._op is self._op
            and other._datatype is self._datatype
        )

    def __hash__(self) -> int:
        return hash((id(self._op), id(self._datatype)))

    def check(self) -> None:
        """Raise what MPI says of them, on all ranks: not all fold."""
        one = bytearray(self._extent)
        self(memoryview(one), memoryview(one), memoryview(one))

    def __call__(self, where: memoryview, left: memoryview, right: memoryview) -> None:
        both, count = bytearray(right), len(right) // self._extent
        if count:
            self._op.Reduce_local([left, count, self._datatype], [both, count, self._datatype])
            where[:] = both


def folding_of(op: Any, elements: Elements) -> Folding:
    """Return how an operation of MPI combines elements like these."""
    operation, kind = operation_of(op, "reduction"), elements.datatype.typestr
    simple = (
        op in _ON_KINDS.get(kind[:1], ())
        and kind[1:] == str(elements.extent)
        and elements.datatype not in _WITH_RULES_OF_THEIR_OWN
    )
    codes = operation.native(kind) if simple else None
    by_mpi = None if codes else _ByMPI(op, elements.datatype, elements.extent)
    if by_mpi and op.is_predefined and elements.extent > 0:
        by_mpi.check()
    return Folding(operation.name, op.Is_commutative(), codes, by_mpi)


class Lot(Buffer):
    """Elements with their gaps, as a reduction takes them."""

    def __init__(self, memory: Any, elements: Elements, count: int) -> None:
        self.memory, self.count, self.width = memory, count, elements.extent
        self.kind = elements.datatype.typestr


def given(elements: Elements) -> Lot:
    """Return elements that are combined: where they are, or a copy."""
    direct = _aligned(elements)
    memory = memoryview(elements.raw()) if direct is None else direct
    return Lot(memory, elements, elements.count)


def wanted(elements: Elements) -> Lot:
    """Return a place for elements that are combined."""
    direct = _aligned(elements)
    if direct is not None:
        return Lot(direct, elements, elements.count)
    made = Lot(memoryview(bytearray(elements.count * elements.extent)), elements, elements.count)
    made.back = lambda: elements.put_raw(made.memory)
    return made


def _aligned(elements: Elements) -> memoryview | None:
    direct = elements.direct
    if direct is not None and len(direct) and MPI.Get_address(direct) % elements.extent:
        return None
    return direct
