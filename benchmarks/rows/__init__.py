"""The rows of the programs beside: one module a topic, each with `measure(quick)`.

A module here measures through the public names of acp_mpi and through the engine's header only.
"""
