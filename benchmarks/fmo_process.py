"""One process of `fmo_spawn.py`: `fmo_process.py FOLDER NAP PART ARGUMENTS...`.

PART is "acp" for any process of the example itself, else "master", "server" or "worker" of
`openfmo_by_spawn`; ARGUMENTS are the example's. Master and servers write into FOLDER
what they took.
"""

import json
import os
import sys
import time
from pathlib import Path

from memory_process import memory

# Before anything imports NumPy: a worker has one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
sys.path.append(str(Path(__file__).parents[1] / "examples"))


class Witness:
    """What this process took: the most memory at any stage, processor time between both."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._took = memory()
        self._seconds = 0.0

    def look(self, stage: str) -> None:
        """Look at stage "joined" or "calculated"."""
        now = time.process_time()
        self._seconds = now - (self._seconds if stage == "calculated" else 0.0)
        heap, pss, uss = (max(pair) for pair in zip(self._took, memory(), strict=True))
        self._took = heap, pss, uss

    def write(self, part: str) -> None:
        """Write it to a file named for the part."""
        heap, pss, uss = self._took
        took = {"heap": heap, "pss": pss, "uss": uss, "processor": self._seconds}
        Path(self._folder, f"{part}.{os.getpid()}").write_text(json.dumps(took))


def by_acp(arguments: list[str], witness: Witness) -> int:
    """Be a process of the example."""
    from openfmo_like.program import main as play

    import acp_mpi as acp

    with acp.init():
        part = acp.group().name
        if part.startswith("worker"):
            return play(arguments)
        witness.look("joined")
        code = play(arguments)
        witness.look("calculated")
        witness.write(part)
    return code


def by_spawn(folder: str, nap: str, part: str, arguments: list[str], witness: Witness) -> None:
    """Be a process of the spawned program."""
    from openfmo_by_spawn.program import play

    def command(part: str) -> list[str]:
        return [__file__, folder, nap, part, *arguments]

    play(part.removeprefix("master"), arguments, command, float(nap), witness.look)
    if part != "worker":
        witness.write(part)


def main(folder: str, nap: str, part: str, *arguments: str) -> int:
    """Play a part and return the exit code."""
    witness = Witness(folder)
    if part == "acp":
        return by_acp(list(arguments), witness)
    by_spawn(folder, nap, part, list(arguments), witness)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
