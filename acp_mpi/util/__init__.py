"""Helpers that any part of the package may use and that know none of the parts."""

_missed = False


def __getattr__(name: str) -> object:
    global _missed
    if name == "_system":  # `import` asks before it looks for the module, and after
        if _missed:
            from acp_mpi.engine import _engine  # noqa: F401  is not built either, and says so
        _missed = True
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
