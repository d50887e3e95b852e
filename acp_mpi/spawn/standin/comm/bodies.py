"""The body behind a communicator of several groups: its members and its life."""

from __future__ import annotations

from _thread import allocate_lock
from abc import abstractmethod
from operator import index

import acp_mpi as acp
from acp_mpi.spawn.standin.comm.belongings import Belongings
from acp_mpi.spawn.standin.family import MPI, fail, kinds
from acp_mpi.spawn.standin.p2p.point_to_point import PointToPoint
from acp_mpi.spawn.standin.p2p.requests import Request
from acp_mpi.spawn.standin.p2p.transport import Circle, derived
from acp_mpi.spawn.standin.p2p.work import Done
from acp_mpi.spawn.standin.types.groups import Group, ranks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from acp_mpi.spawn.standin.coll.objects import Objects


# Of MPI 4.1; where mpi4py or MPI do not know a type, its number is another's, or UNDEFINED.
_NAMED = {MPI.COMM_TYPE_HW_GUIDED, getattr(MPI, "COMM_TYPE_RESOURCE_GUIDED", MPI.UNDEFINED)}


def shares_memory(split_type: int, info: Any) -> bool:
    """Return whether ranks that share memory are to be together, False if none are to be.

    Nothing is known of any other part of a node. Raise MPI.Exception for what is not a type.
    """
    if split_type == MPI.COMM_TYPE_SHARED:
        return True
    if split_type in _NAMED - {MPI.UNDEFINED}:
        hints = {} if info is None or info == MPI.INFO_NULL else dict(info)
        return hints.get("mpi_hw_resource_type") == "mpi_shared_memory"
    if split_type not in (MPI.COMM_TYPE_HW_UNGUIDED, MPI.UNDEFINED):
        fail(MPI.ERR_ARG)
    return False


class Body(PointToPoint, Belongings):
    """A communicator of several groups."""

    inter: bool
    is_topo, topology = False, MPI.UNDEFINED

    def __init__(self, context: int, local: Circle, peers: Circle) -> None:
        self.context, self.local, self.peers = context, local, peers
        Belongings.__init__(self)
        self._open = True
        self._made = 0
        self._collectives: Objects | None = None
        self._inner: Body | None = None
        self._lock = allocate_lock()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if (method := getattr(self.collectives, name, None)) is not None:
            setattr(self, name, method)  # found at once the next time
            return method
        raise NotImplementedError(
            f"{name}: MPI knows nothing of a communicator whose ranks are of several groups, which "
            "exchange messages by acp_mpi; call it on a communicator of one group (COMM_WORLD, "
            "or what Split makes of it), or use messages and collectives; docs/spawn.md lists them"
        )

    @property
    def collectives(self) -> Objects:
        """Its collectives, which are loaded for the first of them."""
        with self._lock:
            if self._collectives is None:
                from acp_mpi.spawn.standin.coll.objects import Objects

                self._collectives = Objects(self)
            return self._collectives

    @property
    def _kind(self) -> Any:
        return kinds["Intercomm" if self.inter else "Intracomm"]

    def shown(self) -> Any:
        """Return a communicator that this is behind."""
        return self._kind._of(self)

    def null(self) -> Any:
        """Return what stands for no communicator where one of this kind could be."""
        return self._kind()

    @property
    def closed(self) -> bool:
        """Whether the communicator has been freed."""
        return not self._open

    def check(self) -> None:
        """Raise if the communicator has been freed."""
        if not self._open:
            fail(MPI.ERR_COMM)

    def next_context(self, *parts: object) -> int:
        """Return the context of the next communicator that all members make of this one."""
        with self._lock:
            self._made += 1
            return derived(self.context, self._made, *parts)

    # Members --------------------------------------------------------------------------------

    def Get_size(self) -> int:
        self.check()
        return len(self.local)

    def Get_rank(self) -> int:
        self.check()
        return int(self.local.rank)

    def Get_group(self) -> Any:
        return Group._of(self.local.ranks)

    def Is_inter(self) -> bool:
        return self.inter

    def Is_intra(self) -> bool:
        return not self.inter

    def Get_topology(self) -> int:
        return int(MPI.UNDEFINED)

    size, rank, group = property(Get_size), property(Get_rank), property(Get_group)
    is_inter, is_intra = property(Is_inter), property(Is_intra)

    @property
    def handle(self) -> int:
        """The handle for foreign C code: there is none."""
        return int(self.__getattr__("handle"))

    def Compare(self, comm: Any) -> int:
        if not isinstance(comm, MPI.Comm):
            raise TypeError(f"Compare: {comm!r} is not a communicator")
        if getattr(comm, "_body", None) is self:
            return int(MPI.IDENT)
        mine, its = _sides(self.shown()), _sides(comm)
        if len(mine) != len(its):
            return int(MPI.UNEQUAL)
        if mine == its:
            return int(MPI.CONGRUENT)
        same = all(sorted(a) == sorted(b) for a, b in zip(mine, its, strict=True))
        return int(MPI.SIMILAR if same else MPI.UNEQUAL)

    # Life -----------------------------------------------------------------------------------

    def Free(self) -> None:
        self.check()
        self.attributes.clear()
        self.errors.clear()
        self._open = False
        self.receives_no_more()
        if self._inner is not None:
            self._inner._open = False
            self._inner.receives_no_more()

    def Disconnect(self) -> None:
        self.check()
        self.collectives.part()
        self.Free()

    def Abort(self, errorcode: int = 0) -> NoReturn:
        MPI.COMM_WORLD.Abort(errorcode)
        raise SystemExit(errorcode)

    @abstractmethod
    def _like(self, context: int) -> Body:
        """Return one of the same members."""

    def inner(self) -> Body:
        """Return the duplicate on which `mpi4py.util.pkl5` has its collectives."""
        if self._inner is None:
            self._inner = self._like(derived(self.context, "inner"))
        return self._inner

    def Clone(self) -> Any:
        return self.Dup()

    def Dup(self, info: Any = None) -> Any:
        self.check()
        made = self._like(self.next_context("dup")).shown()
        self.give_to(made._body)
        if info is not None:
            made._body.Set_info(info)
        return made

    Dup_with_info = Dup

    def Idup(self, info: Any = None) -> Any:
        return self.Dup(info), Request._of(Done())

    Idup_with_info = Idup

    def Split_type(self, split_type: int, key: int = 0, info: Any = None) -> Any:
        self.check()
        host = str(MPI.Get_processor_name())
        names = self.collectives.among_local("Split_type", host)  # of all, whatever type they give

        def place() -> tuple[int, int]:
            if not shares_memory(split_type, info):
                return MPI.UNDEFINED, index(key)
            return names.index(names[self.local.rank]), index(key)

        return self._split(place)

    def Split(self, color: int = 0, key: int = 0) -> Any:
        # All are to find the same context, whatever kind of integer each of them gives.
        return self._split(lambda: (index(color), index(key)))

    @abstractmethod
    def _split(self, place: Callable[[], tuple[int, int]]) -> Any:
        """Return a communicator of members of the same color; all raise what `place` raises."""

    def _chosen(self, group: Any) -> tuple[int, ...]:
        """Return the ranks of a group of which a communicator is to be made."""
        ranks = ranks_of(group)
        away = [rank for rank in ranks if rank not in self.local.place]
        if away:
            error = MPI.Exception(MPI.ERR_GROUP)
            error.add_note(
                f"the group has {len(away)} that are not in the communicator, the first is rank "
                f"{away[0]} of the job; call this on a communicator that they are in"
            )
            raise error
        return ranks


def sorted_by_key(
    parts: Sequence[tuple[int, int]], color: int, ranks: Sequence[int]
) -> tuple[int, ...]:
    """Return the ranks with a color, by key."""
    places = sorted((key, place) for place, (each, key) in enumerate(parts) if each == color)
    return tuple(ranks[place] for _, place in places)


def _sides(comm: Any) -> list[tuple[int, ...]]:
    """Return the ranks in the job of one group, or two, of any communicator; local."""
    groups = [comm.Get_group()]
    if comm.Is_inter():
        groups.append(comm.Get_remote_group())
    try:
        return [ranks_of(group) for group in groups]
    finally:
        for group in groups:
            group.Free()


class IntraBody(Body):
    """One circle of ranks."""

    inter = False

    def __init__(self, context: int, members: Circle) -> None:
        super().__init__(context, members, members)
        self._of_groups: dict[Any, int] = {}  # how many have been made, by tag and ranks

    def _like(self, context: int) -> Body:
        return IntraBody(context, self.local)

    def _of(self, context: int, ranks: tuple[int, ...]) -> Any:
        own = acp.rank()
        if own not in ranks:
            return self.null()
        return IntraBody(context, Circle(ranks, own)).shown()

    def _split(self, place: Callable[[], tuple[int, int]]) -> Any:
        parts = self.collectives.call("allgather", lambda: (place(),))
        color = parts[self.local.rank][0]
        context = self.next_context("split", color)
        if color == MPI.UNDEFINED:
            return self.null()
        return self._of(context, sorted_by_key(parts, color, self.local.ranks))

    def Create(self, group: Any) -> Any:
        self.check()
        context = self.next_context("create")  # counted by all, also where the group is refused
        ranks = self._chosen(group)
        return self._of(derived(context, ranks), ranks)

    def Create_group(self, group: Any, tag: int = 0) -> Any:
        self.check()
        ranks, tag = self._chosen(group), index(tag)
        with self._lock:  # only these count alike
            number = self._of_groups[tag, ranks] = self._of_groups.get((tag, ranks), 0) + 1
        return self._of(derived(self.context, "group", tag, ranks, number), ranks)


def ranks_in(comm: Any) -> tuple[int, ...]:
    """Return the ranks in the job of the members of any intracommunicator. Collective."""
    body = getattr(comm, "_body", None)
    return tuple(comm.allgather(acp.rank())) if body is None else body.local.ranks


_contexts = iter(range(1, 2**62))


def new_context(what: str) -> int:
    """Return a context that no other communicator of the job has."""
    return derived(0, what, acp.rank(), next(_contexts))
