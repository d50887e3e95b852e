"""The same small operations from C, against the installed engine library and its header here."""

import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from harness import Effort, Goal, Row

from rows.native import compile_c

ENGINE = Path(__file__).parents[2] / "acp_mpi" / "engine"


def _library() -> Path:
    """Return the folder of the installed library."""
    spec = find_spec("acp_mpi")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    for location in spec.submodule_search_locations:
        if Path(location, "engine", "libacp_engine.a").exists():
            return Path(location, "engine")
    raise FileNotFoundError("libacp_engine.a is not installed beside acp_mpi")


def printed(source: str, quick: bool, count: int) -> list[float]:
    """Return what a C program that uses the engine prints; quick: of a tenth of the calls."""
    engine = _library()
    with tempfile.TemporaryDirectory(prefix="acp-bench-") as folder:
        program = compile_c(
            source,
            Path(folder, "program"),
            f"-I{ENGINE}",
            str(engine / "libacp_engine.a"),
            "-pthread",
        )
        answer = subprocess.run(
            [program, str(Effort.of(quick).rounds), str(count // 10 if quick else count)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    return [float(line) for line in answer.split()]


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    copy, store, add, locked = printed("engine_calls.c", quick, 2_000_000)
    goal = Goal(at_most=15)
    return [
        Row("copy 8 B from C", "ns", copy, "load and store alone", store, goal),
        Row("add8 from C", "ns", add, "processor atomic alone", locked, goal),
    ]
