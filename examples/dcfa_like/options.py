"""The command line."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from .device import KINDS


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options; ends the program with code 2 if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m dcfa_like",
        description="Solve the heat equation on a plate by devices, one a rank; a delegate reads, "
        "reduces and writes for them.",
    )
    parser.add_argument("--size", type=_positive, default=256, help="rows of the plate (256)")
    parser.add_argument("--columns", type=_positive, help="as many as rows")
    parser.add_argument("--steps", type=_positive, default=400, help="time steps (400)")
    parser.add_argument("--every", type=_positive, default=50, help="steps an output (50)")
    parser.add_argument(
        "--device", choices=["auto", *KINDS], default="auto", help="the first that is found (auto)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where files go")
    parser.add_argument("--restart", action="store_true", help="go on from the last file in DIR")
    parser.add_argument(
        "--staged", action="store_true", help="send edge rows through the host, as messages"
    )
    parser.add_argument(
        "--go-on", action="store_true", help="without the delegate, if that dies, by threads"
    )
    parser.add_argument(
        "--without-delegate", action="store_true", help="ranks read, reduce and write themselves"
    )
    options = parser.parse_args(argv)
    options.columns = options.columns or options.size
    if options.columns < 3:
        parser.error("--columns and --size must be at least 3")
    return options


def _positive(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}: expected a number, 1 or more")
