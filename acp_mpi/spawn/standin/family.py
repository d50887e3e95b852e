"""The own module of mpi4py, and classes in place of those it has."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, NoReturn, Self


# Not `from mpi4py import MPI`: the package does not have the name yet while the module is loaded.
MPI: Any = importlib.import_module("mpi4py.MPI")


def fail(code: int) -> NoReturn:
    """Raise mpi4py's exception."""
    raise MPI.Exception(code)


kinds: dict[
    str, Any
] = {}  # the classes of ours by their names, for those that make objects of them


class Family(type):
    """The type of a class of ours: mpi4py's own objects are instances of it, too.

    Classes that programs derive from ours are ordinary ones.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any]) -> None:
        super().__init__(name, bases, names)
        if "_original" in names:
            kinds[name] = cls

    def __instancecheck__(cls, thing: Any) -> bool:
        original = cls.__dict__.get("_original")
        if original is not None:
            return isinstance(thing, original)
        return super().__instancecheck__(thing)

    def __subclasscheck__(cls, other: type) -> bool:
        original = cls.__dict__.get("_original")
        if original is not None:
            return issubclass(other, original)
        return super().__subclasscheck__(other)


def new(cls: type, *given: Any, **named: Any) -> Any:
    """Make an object as the C type does that a class of ours has the memory layout of."""
    kind = cls
    while isinstance(kind, Family):
        kind = kind.__base__  # type: ignore[assignment]
    return kind.__new__(cls, *given, **named)


def unless(same: Any) -> Any:
    """Return what `!=` says if `==` says this, which may be that it does not know the other."""
    return same if same is NotImplemented else not same


def predefined(name: str) -> Any:
    """Return what the module of ours, or mpi4py's if it is gone again, has by a name."""
    return getattr(sys.modules[MPI.__name__], name)


def reduced(thing: Any, *names: str) -> Any:
    """Return what pickle needs of one that equals something predefined; None for any other."""
    for name in names:
        if thing == getattr(MPI, name):
            constant = predefined(name)
            return (predefined, (name,)) if thing is constant else (type(thing), (constant,))
    return None


def refuse_copies(thing: Any) -> NoReturn:
    """Raise what mpi4py raises where pickle or copy would make a null one of it."""
    raise ValueError(
        f"pickle, copy: cannot serialize a {type(thing).__name__} of several groups, which means "
        "something in this process only"
    )


class Embodied:
    """An object of mpi4py's, or one with a *body* of ours behind it, which its copies share."""

    __slots__ = ()
    _body: Any = None
    _original: ClassVar[Any]
    _predefined: ClassVar[tuple[str, ...]]  # the names of objects of this kind

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Return a copy that names the same thing."""
        made: Self = new(cls, *given, **named)  # which knows what the argument is called
        for other in (*given, *named.values()):
            if other is not None and not isinstance(other, cls._original) and other:
                wanted, got = cls._original.__name__, type(other).__name__
                raise TypeError(f"{wanted}: expected a {wanted}, and {other!r} is a {got}")
            body = getattr(other, "_body", None)
            if body is not None:
                made._body = body
        return made

    @classmethod
    def _of(cls, body: Any) -> Self:
        """Return an object that a body is behind."""
        made = cls.__new__(cls)
        made._body = body
        return made

    def __eq__(self, other: object) -> Any:
        mine, its = self._body, getattr(other, "_body", None)
        if mine is None and its is None:
            return super().__eq__(other)
        return mine is its

    def __ne__(self, other: object) -> Any:
        return unless(self.__eq__(other))

    def __reduce__(self) -> Any:
        if self._body is not None:
            refuse_copies(self)
        return reduced(self, *self._predefined) or super().__reduce__()

    def __bool__(self) -> bool:
        return self._body is not None or bool(super().__bool__())  # type: ignore[misc]

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as mpi4py's
