"""The native core: addresses, memory, roads, operations and progress of one process.

C sources, one file per noun, and one extension module over them, made of one .pxi per noun.
Nothing here knows mpi4py, NumPy or the environment; buffers come by the buffer protocol.
"""
