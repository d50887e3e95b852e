"""How a program that says `from mpi4py import MPI` gets the module of ours.

mpi4py's types cannot be changed, but a module can have another in its place. A program may be a
script with `#!`, so it is not the command that is rewritten: `acp_mpi_spawn.pth`, which is
installed beside the package, calls `install` in every Python where ACP_SPAWN=1.
"""

from __future__ import annotations

import gc
import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_NAME = "mpi4py.MPI"


class _Loader:
    """Loads mpi4py's module as its own loader does, then puts ours in its place."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return mpi4py's module."""
        module: ModuleType = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Initialise mpi4py, and MPI with it, before the module is replaced."""
        self._loader.exec_module(module)
        put_in_place()


class _Finder:
    """Finds mpi4py's module where all others do not look first."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the other finders say, with our loader, for the one module."""
        if name != _NAME:
            return None
        for other in sys.meta_path:
            spec = None if other is self else other.find_spec(name, path, target)
            if spec is not None:
                spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


def install() -> None:
    """Have `import mpi4py.MPI` give the module of ours; nothing is loaded before."""
    if _NAME in sys.modules:
        put_in_place()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def put_in_place() -> ModuleType:
    """Return the module of ours, which all later imports of `mpi4py.MPI` get, too."""
    import mpi4py

    if _NAME not in sys.modules:
        # With `install` this comes back here, where the module of ours is made.
        importlib.import_module(_NAME)
    collects = gc.isenabled()
    gc.disable()  # modules make no garbage, and looking for it in vain takes a millisecond
    try:
        from acp_mpi.spawn.standin.module import module
    finally:
        if collects:
            gc.enable()
    sys.modules[_NAME] = module
    mpi4py.MPI = module
    return module
