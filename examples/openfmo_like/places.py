"""Where the data of a calculation is: addresses in the memory of the data servers.

Of what changes there are two copies: a sweep reads one and writes the other.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

_NUMBER = 8  # bytes of a float64
COPIES = 2


class Memory(Protocol):
    """What those addresses lead into: `acp_mpi` itself, or what stands in for it."""

    def malloc(self, size: int, rank: int, /) -> int:
        """Return the address of so many bytes on a rank."""

    def get(self, ga: int, buffer: Any, /) -> Any:
        """Fill a buffer from an address and return it."""

    def put(self, ga: int, buffer: Any, /) -> None:
        """Write a buffer to an address."""


@dataclasses.dataclass(frozen=True)
class Places:
    """Addresses by copy, and by fragment where each has its own; the same on all processes."""

    functions: tuple[int, ...]  # n of each fragment
    atoms: tuple[int, ...]
    densities: tuple[tuple[int, ...], ...]  # [copy][fragment]: n(n+1)/2 numbers
    orbital_populations: tuple[int, ...]  # [copy]: those of all fragments
    atomic_populations: tuple[int, ...]
    distances: int  # a row of R(I,K) for each fragment

    @property
    def count(self) -> int:
        """The number of fragments."""
        return len(self.functions)

    def density_bytes(self, i: int) -> int:
        """Return the size of a packed density."""
        return triangle(self.functions[i]) * _NUMBER

    def pieces(self, copy: int) -> list[tuple[int, int]]:
        """Return (address, bytes) of all that makes up one copy, and the distances."""
        return [
            *((ga, self.density_bytes(i)) for i, ga in enumerate(self.densities[copy])),
            (self.orbital_populations[copy], sum(self.functions) * _NUMBER),
            (self.atomic_populations[copy], sum(self.atoms) * _NUMBER),
            (self.distances, self.count**2 * _NUMBER),
        ]


def triangle(n: int) -> int:
    """Return how many numbers the lower triangle of an n x n matrix has."""
    return n * (n + 1) // 2


def allocate(
    functions: Sequence[int], atoms: Sequence[int], servers: Sequence[int], memory: Memory
) -> Places:
    """Take memory on the servers: densities largest first, each on the least loaded one.

    Populations and distances are whole, on the first server. Local to the caller: the servers do
    not take part.
    """
    load = dict.fromkeys(servers, 0)
    home = {}
    for i in sorted(range(len(functions)), key=lambda i: (-functions[i], i)):
        home[i] = min(load, key=lambda server: load[server])
        load[home[i]] += triangle(functions[i])
    first = servers[0]
    return Places(
        tuple(functions),
        tuple(atoms),
        tuple(
            tuple(memory.malloc(triangle(n) * _NUMBER, home[i]) for i, n in enumerate(functions))
            for _ in range(COPIES)
        ),
        tuple(memory.malloc(sum(functions) * _NUMBER, first) for _ in range(COPIES)),
        tuple(memory.malloc(sum(atoms) * _NUMBER, first) for _ in range(COPIES)),
        memory.malloc(len(functions) ** 2 * _NUMBER, first),
    )
