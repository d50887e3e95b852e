"""What a job is, and what comes out of it; no part of it knows how either travels."""

import struct
from typing import NamedTuple

FREE, MONOMER, PAIR, DISTANT = range(2, 6)
NAMES = {
    FREE: "free monomers",
    MONOMER: "monomers",
    PAIR: "SCF pairs",
    DISTANT: "electrostatic pairs",
}
BATCH = 16  # electrostatic pairs in a job

_ROW = struct.Struct("<q7d")
ROW_BYTES = _ROW.size


class Failed(ArithmeticError):
    """A job was done and has no result."""

    def __init__(self, kind: int, job: int) -> None:
        super().__init__(
            f"{NAMES[kind]}: the SCF of job {job + 1} did not converge; check the geometry and "
            "the charges"
        )


class Row(NamedTuple):
    """The result of a job: what a group writes, and nobody else."""

    stamp: int = 0  # the round that wrote it, negative if it failed, 0 before
    value: float = 0.0  # E'_X, or the sum of Delta_IJ of a batch
    extra: float = 0.0  # E_X, or Tr[(D^IJ - D^I (+) D^J) V^IJ]
    change: float = 0.0  # max |D - D of the sweep before|
    begin: float = 0.0  # seconds since the epoch
    end: float = 0.0
    waited: float = 0.0  # seconds for data, counter and server
    group: float = 0.0


class Phase(NamedTuple):
    """What a phase took: for the load balance and the Gantt picture."""

    name: str
    begin: float
    end: float
    rows: tuple[Row, ...]  # of the jobs done in this run


def pack_row(row: Row) -> bytes:
    """Return a row as it lies in memory."""
    return _ROW.pack(*row)


def unpack_rows(data: bytes | bytearray) -> list[Row]:
    """Return the rows that lie in memory one behind the other."""
    return [Row(*fields) for fields in _ROW.iter_unpack(data)]
