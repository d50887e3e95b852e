"""Two kernels of the NAS Parallel Benchmarks (NAS TR 95-020, version 3.4), and what carries them.

A kernel is written once, against `Transport`; what comes in here is a kernel or a transport.
"""

# The environment that holds MPI to TCP. Naming a provider alone is silently ignored by MPICH.
TCP_ONLY = {
    "MPIR_CVAR_NOLOCAL": "1",
    "UCX_TLS": "tcp,self",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "tcp,self",
}
