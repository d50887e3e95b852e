"""Measure the example openfmo_like: two groups of one worker against one, the same calculation.

    python benchmarks/fmo.py [--molecules 16] [--basis 6-31G] [--rounds 3]

Both sides run in turn. What counts is the phase of SCF pairs; its goal, 1.8 times as fast, needs
two cores that nobody else uses. How long the workers wait for data, counter and server, and what
the data server takes, is by the program's own accounting. Energies must be equal to the last bit.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import Goal, Row, environment, positive, print_environment, progress, table

EXAMPLES = Path(__file__).parent.parent / "examples"
WATER = EXAMPLES / "openfmo_like" / "water16.xyz"


def calculate(groups: int, molecules: int, basis: str, folder: Path) -> dict[str, Any]:
    """Return what a calculation by so many groups of one wrote as JSON."""
    out = folder / "result.json"
    command = [sys.executable, "-m", "openfmo_like", str(WATER), "--first", str(molecules)]
    command += ["--basis", basis, "--groups", str(groups), "--group-size", "1"]
    command += ["--json", str(out), "--dump", str(folder / "dump")]
    subprocess.run(command, cwd=EXAMPLES, check=True, stdout=subprocess.DEVNULL)
    result: dict[str, Any] = json.loads(out.read_text())
    out.unlink()
    return result


def pairs(result: dict[str, Any]) -> dict[str, Any]:
    """Return the phase of SCF pairs."""
    (phase,) = (phase for phase in result["phases"] if phase["name"] == "SCF pairs")
    found: dict[str, Any] = phase
    return found


def main() -> int:
    """Run both sides in turn, print the table and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecules", type=positive, default=16)
    parser.add_argument("--basis", default="6-31G")
    parser.add_argument("--rounds", type=positive, default=3)
    options = parser.parse_args()
    sides: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for groups in (1, 2) if number % 2 == 0 else (2, 1):
                progress(f"round {number + 1} of {options.rounds}: groups of one: {groups}")
                result = calculate(groups, options.molecules, options.basis, Path(folder))
                sides[groups].append(result)
    seconds = {
        groups: statistics.median(pairs(result)["seconds"] for result in results)
        for groups, results in sides.items()
    }
    results = [*sides[1], *sides[2]]
    busy = sum(sum(phase["busy"].values()) for result in results for phase in result["phases"])
    waited = sum(
        phase["waiting"] * sum(phase["busy"].values())
        for result in results
        for phase in result["phases"]
    )
    served = max(second for result in results for second in result["server_processor_seconds"])
    same = len({result["energy"] for result in results}) == 1
    rows = [
        Row("SCF pairs, two groups", "s", seconds[2], "one group", seconds[1], Goal(speed=1.8)),
        Row("waiting of the workers", "%", 100 * waited / busy, goal=Goal(at_most=2.0)),
        Row("processor time of the data server, at most", "s", served),
    ]
    print_environment(environment())
    print(table(rows))
    print(f"\nenergies {'equal to the last bit' if same else 'DIFFER'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
