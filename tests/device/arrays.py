"""Say which packages with device arrays are here, and what the driver knows of their memory.

    python3 tests/device/arrays.py

Each package is asked in a process of its own. It needs the standard library only.
"""

import ctypes
import importlib
import os
import subprocess
import sys
from collections.abc import Callable

ATTRIBUTES = {  # number in the driver's interface, and how much it may write
    "type": (2, ctypes.c_uint),
    "device": (9, ctypes.c_int),
    "managed": (8, ctypes.c_uint64),
    "name": (10, ctypes.c_uint64),
    "handles": (14, ctypes.c_uint64),
    "start": (11, ctypes.c_uint64),
    "size": (12, ctypes.c_uint64),
}


def attributes(pointer: int) -> str:
    """Return what the driver says of an address."""
    driver = ctypes.CDLL("libcuda.so.1")
    values = {name: kind(0) for name, (_, kind) in ATTRIBUTES.items()}
    numbers = (ctypes.c_int * len(values))(*(number for number, _ in ATTRIBUTES.values()))
    places = (ctypes.c_void_p * len(values))(
        *(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values.values())
    )
    status = driver.cuPointerGetAttributes(len(values), numbers, places, ctypes.c_uint64(pointer))
    if status:
        return f"cuPointerGetAttributes: error {status}"
    got = {name: value.value for name, value in values.items()}
    got["start"] = f"{pointer - got['start']} before" if got["start"] else "?"
    return ", ".join(f"{name} {value}" for name, value in got.items())


def protocols(array: object) -> None:
    """Print which protocols an array has, and of what its memory is."""
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface:
        print(f"  __cuda_array_interface__: {dict(interface)}")
    if hasattr(array, "__dlpack_device__"):
        print(f"  __dlpack_device__: {array.__dlpack_device__()}")
    pointer = interface["data"][0] if interface else 0
    if not pointer and hasattr(array, "unsafe_buffer_pointer"):
        pointer = array.unsafe_buffer_pointer()
    if pointer:
        print(f"  driver: {attributes(pointer)}")


def ask_cupy() -> None:
    import cupy

    protocols(cupy.arange(1000))
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    print("  with MemoryAsyncPool:")
    protocols(cupy.arange(1000))


def ask_torch() -> None:
    import torch

    if not torch.cuda.is_available():
        print("  torch.cuda.is_available() is false")
        return
    protocols(torch.arange(1000, device="cuda"))
    protocols(torch.zeros(50_000_000, device="cuda"))
    print(f"  current stream: {torch.cuda.current_stream().cuda_stream:#x}")


def ask_jax() -> None:
    import jax

    array = jax.numpy.arange(1000)
    print(f"  {jax.devices()}")
    protocols(array)


def ask_numba() -> None:
    from numba import cuda

    protocols(cuda.device_array(1000))


def ask_mpi4py() -> None:
    from mpi4py import MPI

    print(f"  {MPI.Get_library_version().splitlines()[0]}")


QUESTIONS: dict[str, tuple[Callable[[], None], dict[str, str]]] = {
    "numpy": (lambda: None, {}),
    "mpi4py": (ask_mpi4py, {}),
    "cupy": (ask_cupy, {}),
    "torch": (ask_torch, {}),
    "torch, expandable segments": (
        ask_torch,
        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    ),
    "jax": (ask_jax, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
    "numba": (ask_numba, {}),
    "pyopencl": (lambda: None, {}),
}


def answer(question: str) -> None:
    package = question.partition(",")[0]
    try:
        version = getattr(importlib.import_module(package), "__version__", "?")
    except Exception as error:  # what a broken installation raises is its own
        print(f"{question}: left out: {type(error).__name__}: {error}")
        return
    print(f"{question}: {version}")
    QUESTIONS[question][0]()


def main() -> None:
    if len(sys.argv) > 1:
        answer(sys.argv[1])
        return
    for question, (_, environment) in QUESTIONS.items():
        command = [sys.executable, __file__, question]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **environment},
                timeout=90,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        except subprocess.TimeoutExpired:
            print(f"{question}: not over within 90 s")
            continue
        lines = done.stdout.rstrip().splitlines()
        print("\n".join(lines if not done.returncode else [f"{question}: failed", *lines[-3:]]))


if __name__ == "__main__":
    main()
