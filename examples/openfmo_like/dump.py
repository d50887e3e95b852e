"""What a calculation has found so far, in a file from which it can go on after a kill.

A line of JSON with energies, then the bytes of the densities, populations and distances that lie on
the data servers. It is written beside the old one and put in its place, so there is always a whole
one.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .molecule import InputError
from .places import COPIES, Memory, Places
from .reading import Calculation

_FORMAT = 1

Values = Mapping[int, tuple[float, float]]


class Dump:
    """The dump of one calculation at `path`; within a phase one every so many seconds."""

    def __init__(self, path: Path, every: float, calculation: Calculation, memory: Memory) -> None:
        self.path = path
        self._every = every
        self._memory = memory
        # In full: a hash of it would need a library of several MB in the master.
        self._description = json.dumps(
            [calculation.fragments, calculation.basis, calculation.thresholds]
        )
        self.sweeps: list[list[float]] = []
        self.monomers: list[float] = []
        self._results: dict[str, dict[int, tuple[float, float]]] = {}
        self._data = b""
        self._written = time.monotonic()

    def load(self, path: Path) -> None:
        """Take over what stands in a file; InputError if it is of another calculation."""
        try:
            with path.open("rb") as file:
                head = json.loads(file.readline())
                self._data = file.read()
            if head["format"] != _FORMAT or len(self._data) != head["bytes"]:
                raise ValueError("it is not whole, or of another version")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"--restart {path}: no dump of this program: {error}") from None
        if head["calculation"] != self._description:
            raise InputError(
                f"--restart {path}: that is another calculation; give the same input, basis, "
                "thresholds and --first"
            )
        self.sweeps, self.monomers = head["sweeps"], head["monomers"]
        self._results = {
            name: {int(job): (value, extra) for job, (value, extra) in values.items()}
            for name, values in head["results"].items()
        }

    def restore(self, places: Places) -> None:
        """Put densities, populations and distances back onto the servers."""
        at = 0
        for ga, size in places.pieces(self._copy()) if self.sweeps else ():
            self._memory.put(ga, self._data[at : at + size])
            at += size

    def results(self, phase: str) -> dict[int, tuple[float, float]]:
        """Return the results of a phase by job."""
        return dict(self._results.get(phase, {}))

    def after_sweep(
        self, sweeps: Sequence[Sequence[float]], monomers: Sequence[float], places: Places
    ) -> None:
        """Write what a sweep has found."""
        self.sweeps, self.monomers = [list(sweep) for sweep in sweeps], list(monomers)
        pieces = places.pieces(self._copy())
        self._data = b"".join(self._memory.get(ga, bytearray(size)) for ga, size in pieces)
        self._write()

    def after_phase(self, phase: str, values: Values) -> None:
        """Write the results of a phase of pairs."""
        self._results[phase] = dict(values)
        self._write()

    def now_and_then(self, phase: str, values: Callable[[], Values]) -> None:
        """Write the results of a phase so far, if the last dump is some seconds old."""
        if time.monotonic() - self._written > self._every:
            self.after_phase(phase, values())

    def remove(self) -> None:
        """Take the file away: the calculation is complete."""
        self.path.unlink(missing_ok=True)

    def _copy(self) -> int:
        return (len(self.sweeps) - 1) % COPIES

    def _write(self) -> None:
        head = {
            "format": _FORMAT,
            "calculation": self._description,
            "bytes": len(self._data),
            "sweeps": self.sweeps,
            "monomers": self.monomers,
            "results": self._results,
        }
        try:
            self._replace(json.dumps(head).encode() + b"\n" + self._data)
        except OSError as error:  # the calculation is worth more than its dump
            print(f"openfmo_like: no new dump, the old one stays: {error}", file=sys.stderr)
        self._written = time.monotonic()

    def _replace(self, content: bytes) -> None:
        beside = self.path.with_name(f"{self.path.name}.new")
        try:
            with beside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
