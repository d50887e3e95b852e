"""FMO2-RHF in OpenFMO's layout: a master, data servers and groups of workers in one global memory.

`python -m examples.openfmo_like INPUT` runs it; docs/fmo.md explains it. Only what stands on a
worker imports NumPy and PySCF.
"""
