"""The command line."""

import argparse
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from . import gamess, reading
from .molecule import InputError
from .reading import Calculation


def parse(argv: Sequence[str], program: str = "openfmo_like") -> argparse.Namespace:
    """Return the options; ends the program with code 2 if they are wrong."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}",
        description="Calculate the FMO2-RHF energy of molecules, by groups of workers joined by "
        "acp_mpi. Options win over what the input file says.",
    )
    parser.add_argument("input", type=Path, help="an XYZ file, or an input of OpenFMO or GAMESS")
    what = parser.add_argument_group("the calculation")
    what.add_argument("--first", type=int, metavar="N", help="take the first N molecules")
    what.add_argument("--basis", help=f"one that PySCF knows (default {reading.BASIS})")
    for name, default, meaning in (
        ("respap", 1, "orbital populations in place of densities"),
        ("resppc", 2, "point charges"),
        ("resdim", 2, "no SCF of a pair"),
    ):
        what.add_argument(
            f"--{name}", type=float, metavar="R", help=f"from here on {meaning} ({default}; 0: off)"
        )
    what.add_argument(
        "--fragments", metavar="LIST", help="atoms of each fragment of an XYZ file: 1-3,4-6,7+9+8"
    )
    what.add_argument(
        "--charges", type=_integers, metavar="LIST", help="charge of each fragment: 0,1,-1"
    )
    who = parser.add_argument_group("who calculates")
    who.add_argument("--groups", type=_positive, help="groups of workers (2, or NGROUP)")
    who.add_argument("--group-size", type=_positive, default=2, help="processes in each (2)")
    who.add_argument("--dry-run", action="store_true", help="print macprun's job file only")
    who.add_argument("--servers", type=_positive, help="data servers (1, or NIOPROCS)")
    out = parser.add_argument_group("what comes out")
    out.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    out.add_argument("--gantt", type=Path, metavar="FILE.svg", help="draw who did what, and when")
    out.add_argument(
        "--dump", type=Path, metavar="FILE",
        help="where to keep what is needed to go on after a kill (INPUT's name with .dump, here)",
    )  # fmt: skip
    out.add_argument(
        "--dump-every", type=_seconds, default=10.0, metavar="SECONDS",
        help="how often among the pairs (10); after each sweep in any case",
    )  # fmt: skip
    out.add_argument("--restart", type=Path, metavar="DUMP", help="go on from there")
    return parser.parse_args(argv)


def calculation(options: argparse.Namespace) -> Calculation:
    """Return what is to be calculated, and complete the options by what the file says."""
    found, said = reading.read(
        options.input,
        first=options.first,
        basis=options.basis,
        thresholds=(options.respap, options.resppc, options.resdim),
        fragments=options.fragments,
        charges=options.charges,
    )
    _complete(options, said)
    return found


def check_outputs(options: argparse.Namespace) -> None:
    """Raise InputError for a file that cannot be written: after hours that would be too late."""
    for option, path in (
        ("--json", options.json),
        ("--gantt", options.gantt),
        ("--dump", options.dump),
    ):
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"{option} {path}: that is a folder; give the path of a file")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise InputError(f"{option} {path}: {path.parent} is no folder where you may write")


def _complete(options: argparse.Namespace, said: gamess.Input) -> None:
    options.groups = options.groups or said.groups or 2
    options.servers = options.servers or said.servers or 1
    if options.dump is None:
        options.dump = Path(f"{options.input.stem}.dump")


def _positive(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}: expected a number, 1 or more")


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if (seconds := float(text)) >= 0:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r}: expected a number of seconds, 0 or more")


def _integers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers, as in 0,1,-1") from None
