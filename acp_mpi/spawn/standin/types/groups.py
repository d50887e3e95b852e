"""Groups of processes, of which some may have another COMM_WORLD."""

from __future__ import annotations

import operator

import acp_mpi as acp
from acp_mpi.spawn.standin.family import MPI, Family, fail, new, reduced, refuse_copies, unless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, ClassVar, Self, TypeAlias

    _Choice: TypeAlias = Callable[[Any, int], Sequence[int]]


def world_ranks() -> Sequence[int]:
    """Return the ranks in the job of the processes of COMM_WORLD, in order."""
    return acp.group().ranks


def ranks_of(group: Any) -> tuple[int, ...]:
    """Return the ranks in the job of the members of any group."""
    ranks = getattr(group, "_ranks", None)
    if ranks is not None:
        return tuple(ranks)
    size = MPI.Group.Get_size(group)
    world = MPI.COMM_WORLD.Get_group()
    try:
        places = MPI.Group.Translate_ranks(group, range(size), world)
    finally:
        world.Free()
    everybody = world_ranks()
    return tuple(everybody[place] for place in places)


def known_to_mpi(group: Group) -> Any:
    """Return a group of ranks of the job as MPI's own, to be freed; raise if MPI has no such."""
    places = {rank: place for place, rank in enumerate(world_ranks())}
    ranks = ranks_of(group)
    away = [rank for rank in ranks if rank not in places]
    if away:
        error = MPI.Exception(MPI.ERR_GROUP)
        error.add_note(
            f"the group has {len(away)} of another COMM_WORLD, the first is rank {away[0]} of the "
            "job; call this on a communicator that they are in"
        )
        raise error
    world = MPI.COMM_WORLD.Get_group()
    try:
        return MPI.Group.Incl(world, [places[rank] for rank in ranks])
    finally:
        world.Free()


class Group(MPI.Group, metaclass=Family):  # type: ignore[misc]
    """mpi4py's group, or one of ranks of the job."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Group
    _ranks: tuple[int, ...] | None = None

    def __new__(cls, group: Any = None) -> Self:
        """Return a copy of a group."""
        made: Self = new(cls, group)
        ranks = getattr(group, "_ranks", None)
        if ranks is not None:
            made._ranks = ranks
        return made

    @classmethod
    def _of(cls, ranks: Iterable[int]) -> Self:
        members = tuple(ranks)
        if not members:  # GROUP_EMPTY, with which programs compare it, once more: they may free it
            return cls.__new__(cls, MPI.GROUP_EMPTY.Incl([]))
        made = cls.__new__(cls)
        made._ranks = members
        return made

    def __eq__(self, other: object) -> Any:
        mine, its = self._ranks, getattr(other, "_ranks", None)
        if mine is None and its is None:
            return super().__eq__(other)
        return mine is not None and mine == its

    def __ne__(self, other: object) -> Any:
        return unless(self.__eq__(other))

    def __reduce__(self) -> Any:
        if self._ranks is not None:
            refuse_copies(self)
        return reduced(self, "GROUP_NULL", "GROUP_EMPTY") or super().__reduce__()

    def __bool__(self) -> bool:
        return self._ranks is not None or bool(super().__bool__())

    __hash__ = None  # type: ignore[assignment]  # as mpi4py's

    def Get_size(self) -> int:
        """Return the number of members."""
        ranks = getattr(self, "_ranks", None)
        return int(MPI.Group.Get_size(self)) if ranks is None else len(ranks)

    def Get_rank(self) -> int:
        """Return the caller's place, or UNDEFINED."""
        ranks = getattr(self, "_ranks", None)
        if ranks is None:
            return int(MPI.Group.Get_rank(self))
        return ranks.index(acp.rank()) if acp.rank() in ranks else int(MPI.UNDEFINED)

    size = property(Get_size)
    rank = property(Get_rank)

    def Translate_ranks(self, ranks: Sequence[int] | None = None, group: Any = None) -> list[int]:
        """Return the places of members in another group."""
        if getattr(self, "_ranks", None) is None and getattr(group, "_ranks", None) is None:
            return list(MPI.Group.Translate_ranks(self, ranks, group))
        mine = ranks_of(self)
        its = tuple(world_ranks()) if group is None else ranks_of(group)
        place = {rank: index for index, rank in enumerate(its)}
        if ranks is None:
            ranks = range(len(mine))
        _check([i for i in ranks if i != MPI.PROC_NULL], len(mine), MPI.ERR_RANK)
        return [
            MPI.PROC_NULL if i == MPI.PROC_NULL else place.get(mine[i], MPI.UNDEFINED)
            for i in ranks
        ]

    def Compare(self, group: Any) -> int:
        """Return IDENT, SIMILAR or UNEQUAL."""
        if getattr(self, "_ranks", None) is None and getattr(group, "_ranks", None) is None:
            return int(MPI.Group.Compare(self, group))
        mine, its = ranks_of(self), ranks_of(group)
        if mine == its:
            return int(MPI.IDENT)
        return int(MPI.SIMILAR if sorted(mine) == sorted(its) else MPI.UNEQUAL)

    def Dup(self) -> Any:
        """Return a copy."""
        if getattr(self, "_ranks", None) is None:
            return MPI.Group.Dup(self)
        return type(self)(self)

    def Free(self) -> None:
        """Give the group back; it then equals GROUP_NULL."""
        if getattr(self, "_ranks", None) is None:
            MPI.Group.Free(self)
        else:
            self._ranks = None

    def free(self) -> None:
        """Give the group back unless it is null or predefined."""
        if getattr(self, "_ranks", None) is None:
            MPI.Group.free(self)
        else:
            self._ranks = None

    def _chosen(self, name: str, given: Any, choose: _Choice, *, rest: bool = False) -> Any:
        if getattr(self, "_ranks", None) is None:
            return getattr(MPI.Group, name)(self, given)
        mine = ranks_of(self)
        places = choose(given, len(mine))
        if rest:
            named = set(places)
            places = [place for place in range(len(mine)) if place not in named]
        return Group._of(mine[place] for place in places)

    def Incl(self, ranks: Sequence[int]) -> Any:
        """Return a group of these members."""
        return self._chosen("Incl", ranks, _one_by_one)

    def Excl(self, ranks: Sequence[int]) -> Any:
        """Return a group of all but these members."""
        return self._chosen("Excl", ranks, _one_by_one, rest=True)

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Any:
        """Return a group of the members in some ranges."""
        return self._chosen("Range_incl", ranks, _in_ranges)

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Any:
        """Return a group of all but the members in some ranges."""
        return self._chosen("Range_excl", ranks, _in_ranges, rest=True)

    @classmethod
    def Union(cls, group1: Any, group2: Any) -> Any:
        """Return the members of both, those of the first one first."""
        if cls._are_mpi_s(group1, group2):
            return super().Union(group1, group2)
        return cls._of(dict.fromkeys((*ranks_of(group1), *ranks_of(group2))))

    @classmethod
    def Intersection(cls, group1: Any, group2: Any) -> Any:
        """Return those of the first that are in the second, too."""
        if cls._are_mpi_s(group1, group2):
            return super().Intersection(group1, group2)
        both = set(ranks_of(group2))
        return cls._of(rank for rank in ranks_of(group1) if rank in both)

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Any, group2: Any) -> Any:
        """Return those of the first that are not in the second."""
        if cls._are_mpi_s(group1, group2):
            return super().Difference(group1, group2)
        both = set(ranks_of(group2))
        return cls._of(rank for rank in ranks_of(group1) if rank not in both)

    @classmethod
    def _are_mpi_s(cls, *groups: Any) -> bool:
        return all(getattr(group, "_ranks", None) is None for group in groups)


def _check(places: Iterable[int], size: int, code: int) -> None:
    if any(not 0 <= operator.index(place) < size for place in places):
        fail(code)


def _one_by_one(places: Sequence[int], size: int) -> Sequence[int]:
    _check(places, size, MPI.ERR_RANK)
    return places


def _in_ranges(ranges: Sequence[tuple[int, int, int]], size: int) -> Sequence[int]:
    found: list[int] = []
    for first, last, step in ranges:
        places = range(first, last + (1 if step > 0 else -1), step) if step else ()
        if not places:
            fail(MPI.ERR_ARG)
        _check((places[0], places[-1]), size, MPI.ERR_ARG)
        found += places
    return found
