"""The rows of messages between two ranks: patterns, every power of two, names, MPI's settings."""

PATTERNS = {
    "half a round trip": "there and back, by the half",
    "stream": "one after the other, the next before the last has been answered",
}
WITHOUT_CMA = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "OMPI_MCA_smsc": "^cma"}
SIZES = [1 << power for power in range(27)]  # 1 B to 64 MiB


def size_name(size: int) -> str:
    """Return a size in the largest unit that has a whole number of it."""
    for power, unit in ((20, "MiB"), (10, "KiB")):
        if size >> power:
            return f"{size >> power} {unit}"
    return f"{size} B"


def row_name(pattern: str, size: int) -> str:
    """Return the name of a row, by which the picture finds it again."""
    return f"{pattern} of {size_name(size)}"
