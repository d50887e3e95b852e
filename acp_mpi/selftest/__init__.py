"""`python -m acp_mpi selftest`: what works on this machine, with this MPI, and what does not.

`command` starts jobs and prints what they find; `steps` runs in them, a program like a user's.
"""
