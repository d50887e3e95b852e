"""Types of what collectives are called with, for type checkers alone."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias, TypedDict

Op: TypeAlias = (
    Literal["sum", "prod", "min", "max", "and", "or", "xor", "land", "lor", "lxor"]
    | Callable[[Any, Any], Any]
)

class Begun(TypedDict, total=False):
    ranks: Iterable[SupportsIndex] | None
    group: Any
    between: Any

class Waited(Begun, total=False):
    timeout: float | None

class Folded(Waited, total=False):
    commutative: bool | None

class FoldedBegun(Begun, total=False):
    commutative: bool | None

class Counted(Waited, total=False):
    counts: Sequence[SupportsIndex] | None

class CountedBegun(Begun, total=False):
    counts: Sequence[SupportsIndex] | None
