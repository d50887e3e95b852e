# The end of a process that must not finalize MPI.

cdef extern from "mpi_window/finalize.h" nogil:
    bint finalize_skip(int)


def never_finalize_mpi(instead_of_0: int) -> bool:
    """Let this process end without MPI_Finalize, with its own exit code, or one instead of 0.

    False if the system forbids it.
    """
    return finalize_skip(instead_of_0)
