"""The demonstration: 16 water molecules by two groups of two, compared with the reference."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

WATER = Path(__file__).with_name("water16.xyz")
REFERENCE = -1199.53548035  # hartree, FMO2-RHF/STO-3G at 1/2/2, converged to 1e-8


def main() -> int:
    """Run the program, and say how far from the reference its energy is."""
    picture = Path(tempfile.gettempdir()) / "openfmo_like.svg"
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "result.json"
        command = [sys.executable, "-m", f"{__package__}", str(WATER)]
        command += ["--groups", "2", "--group-size", "2", "--servers", "1"]
        command += ["--json", str(results), "--gantt", str(picture), "--dump", f"{folder}/dump"]
        code = subprocess.run(command).returncode
        if code:
            return code
        energy = json.loads(results.read_text())["energy"]
    print(f"E(FMO2) of {WATER.name}: {energy:.8f} hartree")
    print(f"deviation from the reference: {energy - REFERENCE:+.1e} hartree")
    print(f"who did what, and when: {picture}")
    return 0 if abs(energy - REFERENCE) < 2e-7 else 1


if __name__ == "__main__":
    sys.exit(main())
