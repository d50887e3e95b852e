# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The engine as Python calls it. One engine a process; each noun has a .pxi of its own."""

include "api.pxi"
include "current.pxi"
include "numbers.pxi"
include "waiting.pxi"
include "life.pxi"
include "memory.pxi"
include "operations.pxi"
include "atomics.pxi"
include "transfer.pxi"
include "many.pxi"
include "together.pxi"
