"""The program of `openfmo_like` as OpenFMO does it: processes that the master spawns, and messages.

    python -m acp_mpi.spawn -m openfmo_by_spawn openfmo_like/water16.xyz     # children by acp_mpi
    mpiexec -n 1 python -m openfmo_by_spawn openfmo_like/water16.xyz         # by the MPI library

mpi4py's own calls and nothing else: `Spawn`, ports, messages. Physics, plan, places and dump are
the modules of `openfmo_like`; only what travels is different, and the energies are the same bits.
"""
