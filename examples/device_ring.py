"""Arrays of a device go around the ring of all ranks, directly and through the host.

Directly each step is one put, from the device memory of a rank into that of its right neighbour; on
one node no byte passes through the host, if the device can share its memory. Through the host a
step is a copy from the device, a put, and a copy to the device. After as many steps as there are
ranks each array is back where it came from. Rank 0 prints what a step takes either way, and their
ratio. The arrays are those of CuPy, PyTorch or OpenCL, whatever is found first, or NumPy's in host
memory.

    mpiexec -n 4 python examples/device_ring.py [--bytes 1048576] [--device opencl]
"""

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import acp_mpi as acp

Ring = tuple[Any, int, Callable[[], np.ndarray], Callable[[np.ndarray], None]]
"""An array, its address, what reads it, and what writes it."""


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=1 << 20, help="of an array (1048576)")
    parser.add_argument("--rounds", type=int, default=5, help="around all ranks, each way (5)")
    parser.add_argument("--device", choices=list(ARRAYS), help="the first that is found")
    arguments = parser.parse_args()
    if arguments.bytes < 1 or arguments.rounds < 1:
        parser.error("--bytes and --rounds must be at least 1")
    return arguments


# Arrays ------------------------------------------------------------------------------------


def of_cupy(size: int) -> Ring:
    """Make one of CuPy."""
    cupy = importlib.import_module("cupy")
    array = cupy.zeros(size, np.uint8)
    place = acp.query_ga(acp.register_memory(array))
    return array, place, lambda: cupy.asnumpy(array), array.set


def of_torch(size: int) -> Ring:
    """Make one of PyTorch."""
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch has no device")
    array = torch.zeros(size, dtype=torch.uint8, device="cuda")
    place = acp.query_ga(acp.register_memory(array))
    return (
        array,
        place,
        lambda: array.cpu().numpy(),
        lambda values: array.copy_(torch.from_numpy(values)),
    )


def of_opencl(size: int) -> Ring:
    """Make one of OpenCL that other ranks can share; kernels take `array.buffer`."""
    cl = importlib.import_module("pyopencl")
    device = cl.get_platforms()[0].get_devices()[0]
    array = acp.zeros(size, np.uint8, device=cl.CommandQueue(cl.Context([device])))
    return array, array.ga, array.get, array.set


def of_host(size: int) -> Ring:
    """Make one of NumPy in host memory."""
    array = acp.zeros(size, np.uint8)

    def write(values: np.ndarray) -> None:
        array[:] = values

    return array, acp.query_ga(array), array.copy, write


ARRAYS = {"cupy": of_cupy, "torch": of_torch, "opencl": of_opencl, "host": of_host}


def two_arrays(size: int, device: str | None) -> tuple[str, list[Ring]]:
    """Return the kind that all ranks have, and two arrays: one is sent, the other one is filled."""
    reasons: list[str] = []
    for name in [device] if device else ARRAYS:
        try:
            rings, reason = [ARRAYS[name](size) for _ in range(2)], ""
        except Exception as error:  # of a library that is not there, or finds no device
            rings, reason = [], f"{name}: {type(error).__name__}: {error}"
        everywhere = [each for each in acp.allgather(reason) if each]
        if not everywhere:
            if reasons and acp.rank() == 0:
                print("not found: " + "; ".join(reasons))
            return name, rings
        reasons.append(everywhere[0].splitlines()[0])
    raise SystemExit(f"device_ring: {'; '.join(reasons)}")


# The ring ----------------------------------------------------------------------------------


def go_around(rings: list[Ring], there: list[int], steps: int, direct: bool) -> float:
    """Pass the arrays on so many times; return the seconds of a step."""
    size = rings[0][2]().nbytes
    landing = acp.empty(size, np.uint8)
    right = (acp.rank() + 1) % acp.procs()
    landing_there = acp.allgather(acp.query_ga(landing))[right]
    acp.sync()
    start = time.perf_counter()
    for step in range(steps):
        (array, _, read, _), (_, _, _, write) = rings[step % 2], rings[1 - step % 2]
        if direct:
            acp.put(there[1 - step % 2], array)
            acp.sync()
        else:
            acp.put(landing_there, read())
            acp.sync()
            write(landing)
            acp.sync()
    return (time.perf_counter() - start) / steps


def main() -> None:
    """Run the ring both ways."""
    arguments = parse_arguments()
    with acp.init():
        name, rings = two_arrays(arguments.bytes, arguments.device)
        mine = np.arange(arguments.bytes) % 251
        values = (mine + acp.rank()).astype(np.uint8)
        there = acp.allgather([ring[1] for ring in rings])[(acp.rank() + 1) % acp.procs()]
        steps = 2 * arguments.rounds * acp.procs()  # ends in the first array
        seconds = []
        for direct in (True, False):
            rings[0][3](values)
            go_around(rings, there, 2, direct)  # what is imported stays so
            rings[0][3](values)
            seconds.append(go_around(rings, there, steps, direct))
            if not np.array_equal(rings[0][2](), values):
                sys.exit(f"device_ring: an array has not come back to rank {acp.rank()}")
        if acp.rank() == 0:
            ours, staged = (1e6 * each for each in seconds)
            print(
                f"{arguments.bytes} bytes ({name}) around {acp.procs()} ranks, a step: "
                f"{ours:.0f} µs directly, {staged:.0f} µs through the host, "
                f"{staged / ours:.1f} times as long"
            )
        acp.sync()


if __name__ == "__main__":
    main()
