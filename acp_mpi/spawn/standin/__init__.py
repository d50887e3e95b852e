"""mpi4py's `MPI` with communicators of ours for ranks of several groups.

One file per noun of MPI. What enters here speaks mpi4py's names and raises its exceptions; bytes
travel by messages of `acp_mpi.comm`.
"""
