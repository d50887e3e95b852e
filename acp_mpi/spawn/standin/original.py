"""mpi4py's own module, whatever its name stands for by now."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# Not `from mpi4py import MPI`: the package does not have the name yet while the module is loaded.
MPI: Any = importlib.import_module("mpi4py.MPI")


def fail(code: int) -> NoReturn:
    """Raise mpi4py's exception."""
    raise MPI.Exception(code)
