# The end of a process that must not finalize MPI.

cdef extern from "mpi_window/skip_finalize.h" nogil:
    bint skip_finalize_install(int)


def never_finalize_mpi(instead_of_0: int) -> bool:
    """Let this process end without MPI_Finalize, with its own exit code, or one instead of 0.

    False if the system forbids it.
    """
    return skip_finalize_install(instead_of_0)
