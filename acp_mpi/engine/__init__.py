"""The native core: addresses, memory, roads, operations and progress of one process.

C sources, one file per noun, and one extension module over them, made of one .pxi per noun.
Nothing here knows mpi4py, NumPy or the environment; buffers come by the buffer protocol.
"""

_missed = False


def get_include() -> str:
    """Return the folder of `acp.h`, the header for programs and extensions in C."""
    return f"{__path__[0]}/core"


def __getattr__(name: str) -> object:
    """Say why there is no core; `import` asks before it looks for the module, and after."""
    global _missed
    if name == "_engine" and _missed:
        raise ImportError(
            f"{__path__[0]} is the source of acp_mpi, which is not built there: leave that folder, "
            "or start `python -P`, so that the installed package is found"
        )
    _missed = name == "_engine"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
