"""Solve the heat equation on a square plate with one-sided halo exchange.

The plate is cut into slabs of rows, one for each rank. Each step a rank computes its two edge rows,
puts them straight into its neighbours' halo rows, each put followed by a flag with the number of
the step, computes the rest meanwhile, and sleeps until both of its own flags have reached the step.
No rank receives anything, and there is no barrier in the loop. In the end rank 0 reads the slabs
and compares them with a serial NumPy run: they must agree bit by bit.

    mpiexec -n 4 python examples/stencil.py --size 256 --steps 500 --picture heat.png
"""

import argparse
import struct
import sys
import time
import zlib

import numpy as np

import acp_mpi as acp

DIFFUSION = 0.2  # below 0.25, where the explicit scheme is stable
FROM_ABOVE, FROM_BELOW = 0, 1
SHADES = " .:-=+*#%@"


# The numerics ------------------------------------------------------------------------------


def initial_plate(size: int) -> np.ndarray:
    """Return the (size+2, size+2) plate at step 0: two hot discs, edges kept at zero."""
    y, x = np.mgrid[0 : size + 2, 0 : size + 2] / (size + 1)
    plate = np.zeros((size + 2, size + 2))
    plate[(y - 0.3) ** 2 + (x - 0.3) ** 2 < 0.03] = 1.0
    plate[(y - 0.65) ** 2 + (x - 0.7) ** 2 < 0.02] = 0.7
    plate[0] = plate[-1] = plate[:, 0] = plate[:, -1] = 0.0
    return plate


def relax(old: np.ndarray, new: np.ndarray, first: int, last: int) -> None:
    """Advance rows first to last-1 by one step, from `old` into `new`."""
    centre = old[first:last, 1:-1]
    new[first:last, 1:-1] = centre + DIFFUSION * (
        old[first - 1 : last - 1, 1:-1]
        + old[first + 1 : last + 1, 1:-1]
        + old[first:last, :-2]
        + old[first:last, 2:]
        - 4.0 * centre
    )


def serial(size: int, steps: int) -> np.ndarray:
    """Return the plate after `steps` steps, computed by this process alone."""
    old = initial_plate(size)
    new = old.copy()
    for _ in range(steps):
        relax(old, new, 1, size + 1)
        old, new = new, old
    return old


# The parallel part -------------------------------------------------------------------------


def cut(size: int, procs: int) -> list[int]:
    """Return where each slab starts: slab r has the interior rows bounds[r] to bounds[r+1]-1."""
    return [1 + size * r // procs for r in range(procs + 1)]


def parallel(size: int, steps: int) -> np.ndarray | None:
    """Return the plate after `steps` steps on rank 0, None elsewhere. Collective."""
    rank, procs = acp.rank(), acp.procs()
    bounds = cut(size, procs)
    rows, columns = bounds[rank + 1] - bounds[rank], size + 2

    # Both generations of the slab with its halo rows, and the flags, are global memory.
    slab = acp.zeros((2, rows + 2, columns), np.float64)
    slab[:] = initial_plate(size)[bounds[rank] - 1 : bounds[rank + 1] + 1]
    flags = acp.zeros(2, np.int64)
    flags_ga = acp.query_ga(flags)
    places = acp.allgather((acp.query_ga(slab), flags_ga))

    def halo(neighbour: int, generation: int, row: int) -> int:
        """Return the address of a row of a neighbour's slab; -1 is its last row."""
        height = bounds[neighbour + 1] - bounds[neighbour] + 2
        index = generation * height + row % height
        return int(places[neighbour][0] + index * columns * slab.itemsize)

    for step in range(1, steps + 1):
        generation = step % 2
        old, new = slab[1 - generation], slab[generation]
        relax(old, new, 1, 2)
        relax(old, new, rows, rows + 1)
        # Two generations suffice: a neighbour overwrites the halo of step s only in step s+2, for
        # which it needs the row that this rank sends after it has read that halo.
        if rank > 0:
            flag = places[rank - 1][1] + FROM_BELOW * flags.itemsize
            acp.put(halo(rank - 1, generation, -1), new[1], flag=(flag, step))
        if rank < procs - 1:
            flag = places[rank + 1][1] + FROM_ABOVE * flags.itemsize
            acp.put(halo(rank + 1, generation, 0), new[rows], flag=(flag, step))
        relax(old, new, 2, rows)
        if rank > 0:
            acp.wait_until(flags_ga + FROM_ABOVE * flags.itemsize, ">=", step)
        if rank < procs - 1:
            acp.wait_until(flags_ga + FROM_BELOW * flags.itemsize, ">=", step)

    acp.sync()
    plate = None
    if rank == 0:
        plate = initial_plate(size)
        for r in range(procs):
            shape = (2, bounds[r + 1] - bounds[r] + 2, columns)
            remote = acp.remote(places[r][0], shape, np.float64)
            plate[bounds[r] : bounds[r + 1]] = remote[steps % 2, 1:-1]
    acp.sync()  # the slabs stay until rank 0 has read them
    return plate


# The picture -------------------------------------------------------------------------------


def text_picture(plate: np.ndarray, width: int = 64) -> str:
    """Return the plate as lines of characters, a character cell being twice as high as wide."""
    width = min(width, plate.shape[1])
    rows = np.linspace(0, plate.shape[0] - 1, max(width // 2, 1)).astype(int)
    columns = np.linspace(0, plate.shape[1] - 1, width).astype(int)
    sample = plate[np.ix_(rows, columns)] / (plate.max() or 1.0)
    shades = (sample * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("".join(SHADES[shade] for shade in row) for row in shades)


def write_png(path: str, plate: np.ndarray) -> None:
    """Write the plate as a PNG file, from black over red and yellow to white."""
    heat = plate[..., None] / (plate.max() or 1.0)
    pixels = (np.clip(3.0 * heat - np.array([0.0, 1.0, 2.0]), 0.0, 1.0) * 255).astype(np.uint8)
    height, width, _ = pixels.shape
    scanlines = np.zeros((height, 1 + 3 * width), np.uint8)  # byte 0 of a line: no filter
    scanlines[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(scanlines.tobytes())))
        file.write(chunk(b"IEND", b""))


def write_picture(path: str, plate: np.ndarray, title: str) -> None:
    """Write a picture file, by matplotlib where the name is not that of a PNG file."""
    if path.endswith(".png"):
        write_png(path, plate)
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.add_subplot(title=title)
    figure.colorbar(axes.imshow(plate, cmap="inferno"), label="temperature")
    figure.savefig(path)


# The program -------------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=128, help="rows and columns (default 128)")
    parser.add_argument("--steps", type=int, default=400, help="time steps (default 400)")
    parser.add_argument(
        "--picture",
        metavar="FILE",
        help="write a picture instead of printing one (other formats than .png by matplotlib)",
    )
    arguments = parser.parse_args()
    if arguments.steps < 0:
        parser.error("--steps must not be negative")
    if arguments.size < acp.procs():
        parser.error(f"--size must be at least the number of ranks, {acp.procs()}")
    if arguments.picture and not arguments.picture.endswith(".png"):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            parser.error("only .png works without matplotlib: pip install 'acp-mpi[plot]'")
    return arguments


def report(plate: np.ndarray, seconds: float, arguments: argparse.Namespace) -> bool:
    """Compare with the serial run, show the picture, and return whether the plates are equal."""
    title = f"heat on a {arguments.size} x {arguments.size} plate after {arguments.steps} steps"
    difference = float(np.abs(plate - serial(arguments.size, arguments.steps)).max())
    if arguments.picture:
        try:
            write_picture(arguments.picture, plate, title)
        except (OSError, ValueError) as error:
            print(f"stencil: no picture: {error}", file=sys.stderr)
            return False
    else:
        print(text_picture(plate))
    print(f"{title}, ranks: {acp.procs()}, {seconds:.2f} s")
    print(f"largest difference from the serial run: {difference:g}")
    if difference != 0.0:
        print("stencil: the parallel run differs from the serial one", file=sys.stderr)
    return difference == 0.0


def main() -> int:
    """Start ACP, solve, check, and return the same exit code on all ranks."""
    with acp.init():
        arguments = parse_arguments()
        start = time.perf_counter()
        plate = parallel(arguments.size, arguments.steps)
        seconds = time.perf_counter() - start
        good = plate is None or report(plate, seconds, arguments)
        return 0 if acp.bcast(good, root=0) else 1


if __name__ == "__main__":
    sys.exit(main())
