"""Types of mpi4py other than communicators and requests."""
