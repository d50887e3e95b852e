"""Communicators as programs see them: mpi4py's types, with objects that may be of several groups.

An object either is mpi4py's own, or has a *body* of ours, to which all calls go. Copies that
mpi4py's constructors make (`pkl5.Intercomm(comm)`) have the same body. What only programs need
that spawn or connect is loaded by the call; it knows bodies, and nothing of this module.
"""

from __future__ import annotations

from acp_mpi.spawn.standin.family import MPI, Embodied, Family, predefined
from acp_mpi.spawn.standin.p2p.requests import Request
from acp_mpi.spawn.standin.types.groups import Group, known_to_mpi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


def _end(comm: Any, name: str) -> None:
    body = getattr(comm, "_body", None)
    if body is None:
        getattr(MPI.Comm, name)(comm)
        return
    getattr(body, name)()
    comm._body = None


class Comm(Embodied, MPI.Comm, metaclass=Family):  # type: ignore[misc]
    """mpi4py's communicator."""

    __module__ = MPI.__name__  # for pickle
    _original: ClassVar[Any] = MPI.Comm
    _predefined = ("COMM_WORLD", "COMM_SELF", "COMM_NULL")

    def __reduce__(self) -> Any:
        if self._body is not None:
            raise ValueError(
                "pickle: a communicator of several groups cannot be pickled; send the ranks that "
                "the other side is to use"
            )
        return super().__reduce__()

    def Compare(self, comm: Any) -> int:
        """Return IDENT, CONGRUENT, SIMILAR or UNEQUAL."""
        if (body := getattr(self, "_body", None)) is not None:  # mpi4py's own have none
            return int(body.Compare(comm))
        if (body := getattr(comm, "_body", None)) is not None:
            return int(body.Compare(self))
        return int(MPI.Comm.Compare(self, comm))

    def Free(self) -> None:
        """Give the communicator back; it then equals COMM_NULL."""
        _end(self, "Free")

    def free(self) -> None:
        """Give the communicator back unless it is null or predefined."""
        if getattr(self, "_body", None) is not None:
            _end(self, "Free")
        elif not any(self is predefined(name) for name in ("COMM_WORLD", "COMM_SELF")):
            MPI.Comm.free(self)

    def Disconnect(self) -> None:
        """Wait until all members are done with it; it then equals COMM_NULL."""
        _end(self, "Disconnect")

    @classmethod
    def Get_parent(cls) -> Any:
        """Return the communicator with those that spawned this process, or COMM_NULL."""
        from acp_mpi.spawn.standin.comm import intercommunicators

        return intercommunicators.parent()

    @classmethod
    def Join(cls, fd: int) -> Any:
        """Return the communicator with the process at the other end of a socket."""
        from acp_mpi.spawn.standin.comm import ports

        return ports.join(fd)

    def Get_attr(self, keyval: int) -> Any:
        """Return an attribute, or None."""
        if (body := getattr(self, "_body", None)) is not None:
            return body.Get_attr(keyval)
        from acp_mpi.spawn.standin.comm import belongings

        known = belongings.own_answer(keyval)
        return MPI.Comm.Get_attr(self, keyval) if known is None else known[0]

    @classmethod
    def Create_keyval(
        cls, copy_fn: Any = None, delete_fn: Any = None, nopython: bool = False
    ) -> int:
        """Return a key for belongings."""
        from acp_mpi.spawn.standin.comm import belongings

        return belongings.create_keyval(copy_fn, delete_fn, nopython)

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Give a key back."""
        from acp_mpi.spawn.standin.comm import belongings

        return belongings.free_keyval(keyval)

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Any) -> Any:
        """Return a handler that calls a function with the communicator and the error."""
        from acp_mpi.spawn.standin.comm import belongings

        return belongings.create_errhandler(errhandler_fn)


class Intracomm(Comm, MPI.Intracomm):  # type: ignore[misc]
    """mpi4py's intracommunicator."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Intracomm

    def Spawn(self, *given: Any, **named: Any) -> Any:
        """Start processes of one program; return the communicator with them."""
        from acp_mpi.spawn.standin.comm import spawning

        return ours(spawning.spawn(self, *given, **named))

    def Spawn_multiple(self, *given: Any, **named: Any) -> Any:
        """Start processes of several programs; return the communicator with them."""
        from acp_mpi.spawn.standin.comm import spawning

        return ours(spawning.spawn_multiple(self, *given, **named))

    def Accept(self, *given: Any, **named: Any) -> Any:
        """Wait for a group that connects; return the communicator with it."""
        from acp_mpi.spawn.standin.comm import ports

        return ports.accept(self, *given, **named)

    def Connect(self, *given: Any, **named: Any) -> Any:
        """Meet a group that accepts; return the communicator with it."""
        from acp_mpi.spawn.standin.comm import ports

        return ports.connect(self, *given, **named)

    def Create_intercomm(
        self, local_leader: int, peer_comm: Any, remote_leader: int, tag: int = 0
    ) -> Any:
        """Return the communicator of two groups with leaders that have one in common."""
        from acp_mpi.spawn.standin.comm import intercommunicators

        leads = self.Get_rank() == local_leader
        joined = getattr(peer_comm, "_body", None) is not None if leads else False
        if self._body is None and not self.allreduce(joined, op=MPI.LOR):
            return ours(super().Create_intercomm(local_leader, peer_comm, remote_leader, tag))
        return intercommunicators.meet(self, local_leader, peer_comm, remote_leader, tag)


class Intercomm(Comm, MPI.Intercomm):  # type: ignore[misc]
    """mpi4py's intercommunicator."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Intercomm


class Topocomm(Intracomm, MPI.Topocomm):  # type: ignore[misc]
    """mpi4py's communicator with a topology: of one group, as those below."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Topocomm


class Cartcomm(Topocomm, MPI.Cartcomm):  # type: ignore[misc]
    """mpi4py's grid."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Cartcomm


class Graphcomm(Topocomm, MPI.Graphcomm):  # type: ignore[misc]
    """mpi4py's graph."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Graphcomm


class Distgraphcomm(Topocomm, MPI.Distgraphcomm):  # type: ignore[misc]
    """mpi4py's graph of which no rank knows all."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Distgraphcomm


_OURS = {
    kind._original: kind
    for kind in (
        Comm, Intracomm, Intercomm, Topocomm, Cartcomm, Graphcomm, Distgraphcomm, Group
    )
}  # fmt: skip


def ours(thing: Any) -> Any:
    """Return a communicator or group that mpi4py has made as one of ours."""
    kind = _OURS.get(type(thing))
    return thing if kind is None else kind(thing)


# Methods that answer with a communicator or group of mpi4py's own type, of any communicator.
_MAKERS = frozenset(
    ("Create", "Split", "Split_type", "Create_group", "Create_intercomm", "Merge", "Shrink")
) | {
    "Create_cart", "Create_graph", "Create_dist_graph", "Create_dist_graph_adjacent", "Sub",
    "Get_group", "Get_remote_group", "group", "remote_group",
}  # fmt: skip
_OF_GROUPS = frozenset(("Create", "Create_group", "Create_from_group", "Create_from_groups"))
# Methods that answer with one of the communicator's own type, perhaps one of the program.
_COPIERS = frozenset(("Clone", "Dup", "Dup_with_info", "Idup", "Idup_with_info"))


def _with_mpi_s_groups(original: Any) -> Any:
    """Return a method that takes groups of ranks of the job, too, as far as MPI knows those."""

    def make(*given: Any, **named: Any) -> Any:
        known: list[Any] = []

        def mpi_s(thing: Any) -> Any:
            if getattr(thing, "_ranks", None) is None:
                return thing
            known.append(known_to_mpi(thing))
            return known[-1]

        try:
            return original(*map(mpi_s, given), **{name: mpi_s(named[name]) for name in named})
        finally:
            for group in known:
                group.Free()

    return make


def _typed(answer: Any, comm: Any) -> Any:
    """Return what a communicator was copied to, alone or with a request, as one of its type."""
    if isinstance(answer, tuple):
        return _typed(answer[0], comm), *answer[1:]
    return type(comm)._of(answer._body)


def _to_the_body(name: str, original: Any) -> Any:
    """Return a method that mpi4py answers for its own communicators, the body for ours."""
    makes, copies = name in _MAKERS, name in _COPIERS
    starts = (name[0] in "Ii" and "probe" not in name) or name.endswith("_init")
    by_mpi = _with_mpi_s_groups(original) if name in _OF_GROUPS else original

    def method(self: Any, *given: Any, **named: Any) -> Any:
        body = getattr(self, "_body", None)  # mpi4py's own topologies may come here, too
        if body is not None:
            try:
                answer = getattr(body, name)(*given, **named)
            except Exception as error:
                body.errors.failed(error)
                raise
            if starts and isinstance(answer, Request):  # Is_inter starts nothing
                answer._reports_to(body.errors)
            return _typed(answer, self) if copies else answer
        answer = by_mpi(self, *given, **named)
        return ours(answer) if makes else answer

    return method


def _makes_ours(name: str, original: Any) -> Any:
    """Return a class method that makes one of our communicators where mpi4py makes its own."""
    by_mpi = _with_mpi_s_groups(original) if name in _OF_GROUPS else original

    def make(cls: type, *given: Any, **named: Any) -> Any:
        return ours(by_mpi(*given, **named))

    make.__doc__ = original.__doc__
    return classmethod(make)


for _kind, _name in (
    (Comm, "f2py"), (Comm, "fromint"), (Comm, "fromhandle"), (Intracomm, "Create_from_group"),
    (Intercomm, "Create_from_groups"),
):  # fmt: skip
    if hasattr(_kind._original, _name):
        setattr(_kind, _name, _makes_ours(_name, getattr(_kind._original, _name)))


def _property_of_the_body(name: str, original: Any) -> Any:
    makes = name in _MAKERS

    def read(self: Any) -> Any:
        body = self._body
        if body is not None:
            return getattr(body, name)
        answer = original.__get__(self)
        return ours(answer) if makes else answer

    def write(self: Any, value: Any) -> None:
        if self._body is None:
            original.__set__(self, value)
        else:
            setattr(self._body, name, value)

    return property(read, write, doc=original.__doc__)


def _cover(kind: type, original: type) -> None:
    """Lead what mpi4py's class has, and ours not yet, to the body."""
    for name, thing in vars(original).items():
        if name.startswith("_") or name in vars(kind):
            continue
        if type(thing).__name__ in ("cython_function_or_method", "method_descriptor"):
            setattr(kind, name, _to_the_body(name, thing))
        elif type(thing).__name__ == "getset_descriptor":
            setattr(kind, name, _property_of_the_body(name, thing))


_cover(Comm, MPI.Comm)
_cover(Intracomm, MPI.Intracomm)
_cover(Cartcomm, MPI.Cartcomm)
_cover(Intercomm, MPI.Intercomm)
