"""Draw the rod that the solver sends, and steer the solver: a process without MPI.

It watches the rod cool while both ends are cold, and compares that with the exact solution. When
the middle has cooled to one half it makes the left end hot; when the temperature along the rod has
become a straight line it has seen enough, and closes its channel to the solver.

    cd examples/heat; macprun job.toml
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from rod import RATE, SLOTS, frame, pair, places

import acp_mpi as acp

SHADES = " .:-=+*#%@"
NEAR = 0.01  # of the exact solution, and of the straight line
WIDTH, HEIGHT = 600, 300  # of the picture


def line_of_text(inside: np.ndarray, most: float) -> str:
    """Return the temperatures as characters, one for each cell."""
    levels = np.clip(inside / most * len(SHADES), 0, len(SHADES) - 1).astype(int)
    return "".join(SHADES[level] for level in levels)


def write_picture(path: Path, frames: list[np.ndarray], most: float) -> None:
    """Write the temperatures along the rod as SVG, a line for each frame, from blue to red."""
    lines = []
    for number, inside in enumerate(frames):
        x, y = WIDTH * places(len(inside)), HEIGHT * (1 - inside / most)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        hue = 240 - 240 * number // len(frames)
        lines.append(f'<polyline points="{points}" fill="none" stroke="hsl({hue},80%,45%)"/>')
    body = "\n".join(lines)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">\n{body}\n</svg>\n'
    )


def observe(cells: int, hot: float, ranks: tuple[int, int]) -> tuple[list[np.ndarray], float]:
    """Draw and steer until the solver ends; return the frames, and how far from exact they were."""
    kind, x, seen, error = frame(cells), places(cells), [], 0.0
    frames = acp.Channel(*ranks, size=kind.itemsize, slots=SLOTS, dtype=kind)
    with acp.Channel(*reversed(ranks), size=16, dtype="f8") as orders:
        for view in frames:  # in the slot, where the solver's MPI has gathered it
            step, ends, inside = (view[name][0] for name in ("step", "ends", "inside"))
            print(f"step {step:5} |{line_of_text(inside, max(hot, 1.0))}|", flush=True)
            seen.append(inside.copy())
            if ends[0] != hot:
                time = step * RATE / (cells + 1) ** 2
                exact = np.exp(-(np.pi**2) * time) * np.sin(np.pi * x)
                error = max(error, float(np.abs(inside - exact).max()))
                if inside.max() < 0.5 and orders.statistics().messages == 0:
                    orders.send([hot, 0.0])
            elif np.abs(inside - hot * (1 - x)).max() < NEAR * hot:
                orders.close()  # enough; frames that are under way are still received
    return seen, error


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hot", type=float, default=1.0, help="the left end, later (default 1)")
    parser.add_argument("--picture", metavar="FILE", type=Path, help="write an SVG, too")
    arguments = parser.parse_args()
    if not 0.1 <= arguments.hot <= 10:
        parser.error("--hot must be 0.1 to 10")
    return arguments


def main() -> int:
    """Run the observer; return the exit code."""
    with acp.init():
        arguments, ranks = parse_arguments(), pair()
        if ranks is None or acp.rank() != ranks[1]:
            print("observer: one process in a group of that name, beside a group `solver`; see "
                  "job.toml", file=sys.stderr)  # fmt: skip
            return 2
        try:
            frames, error = observe(acp.lookup("cells"), arguments.hot, ranks)
        except acp.Error as reason:
            print(f"observer: the solver has gone: {reason}", file=sys.stderr)
            return 1
    if arguments.picture:
        write_picture(arguments.picture, frames, max(arguments.hot, 1.0))
    print(f"{len(frames)} frames; while it cooled within {error:.5f} of the exact solution")
    return 0 if error < NEAR else 1


if __name__ == "__main__":
    sys.exit(main())
