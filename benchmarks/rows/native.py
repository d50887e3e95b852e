"""C helpers of the benchmarks, compiled when they are needed."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import cache
from itertools import repeat
from pathlib import Path

import numpy as np
from harness import NS, Body

SOURCES = Path(__file__).parents[1]


def compile_c(source: str, output: Path, *flags: str) -> Path:
    """Compile a C source of the benchmarks with optimisation and return the output's path."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or "cc"
    subprocess.run(
        [
            compiler,
            "-O2",
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            str(SOURCES / source),
            "-o",
            str(output),
            *flags,
        ],
        check=True,
    )
    return output


@cache
def library(source: str) -> ctypes.CDLL:
    """Compile a C source of the benchmarks and load it."""
    with tempfile.TemporaryDirectory(prefix="acp-bench-") as folder:
        output = Path(folder, source).with_suffix(".so")
        return ctypes.CDLL(str(compile_c(source, output, "-shared", "-fPIC")))


def check(error: int) -> None:
    """Raise OSError unless a function of a library has returned 0."""
    if error:
        raise OSError(error, os.strerror(error))


def _bare() -> ctypes.CDLL:
    bare = library("bare.c")
    bare.bare_transfer.argtypes = [
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_long,
        ctypes.c_void_p,
    ]
    return bare


def allow_access() -> None:
    """Let every process of the user into this one's memory, as bare system calls need it."""
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1 & (1 << 64) - 1), 0, 0, 0)


def bare(pid: int, local: np.ndarray, remote: int, *, write: bool, tight: bool = False) -> Body:
    """Return a loop of `process_vm_writev` or `readv` between two arrays, timed in C.

    Each call is made from Python, as those of the other side are: between two calls the interpreter
    runs, which makes the second one slower than in a tight loop in C.
    """
    transfer, address, size = _bare().bare_transfer, local.ctypes.data, local.nbytes

    def loop(count: int) -> float:
        spent = ctypes.c_int64()
        place = ctypes.byref(spent)
        calls, each = (1, count) if tight else (count, 1)
        for _ in repeat(None, calls):
            check(transfer(write, pid, address, remote, size, each, place))
        return spent.value * NS

    return loop
