"""A program may use any name first: what its room needs is there then."""

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import numpy as np
import acp_mpi as acp
acp.init()
ga = acp.query_starter_ga(0)
"""
USES = {
    "put of a strided array": """
acp.put(ga, np.arange(16)[::2])
assert acp.get(ga + 8, bytearray(1))[0] == 2""",
    "get into a strided array": """
acp.put(ga, b"ab")
acp.get(ga, x := np.zeros(4, "u1")[::2])
assert x[1] == 98""",
    "iput of an array": """
acp.complete(acp.iput(ga, np.ones(4)))
assert acp.view(ga, 4, float)[3] == 1""",
    "a vector of many": """
v = acp.Vector("q")
v.extend(np.arange(10**5))
assert v[-1] == 99999""",
    "a map of many": """
m = acp.Map(key="q", value="q")
m.update(np.arange(9), np.arange(9))
assert m[8] == 8""",
    "a list of objects": """
words = acp.List()
words.push_back({"a": 1})
assert words.front() == {"a": 1}""",
    "a registration": """
key = acp.register_memory(np.zeros(8))
assert acp.query_rank(acp.query_ga(key)) == 0""",
    "atomics on many": "assert list(acp.fetch_add8_many([ga, ga], [1, 1])) == [0, 1]",
    "a remote array": """
r = acp.remote(ga, 8, "i8")
r[1:3] = [5, 6]
assert r[2] == 6""",
    "words to all": """
acp.publish("name", (1, "x"))
assert acp.lookup("name") == (1, "x")""",
    "statistics": "assert acp.heap_statistics().used == 0",
    "groups": "assert acp.groups()[0].size == acp.group().size == 1",
    "a reset": """
acp.malloc(100)
acp.reset(0)
assert acp.heap_statistics().blocks == 0""",
}


@pytest.mark.parametrize("use", USES)
def test_any_name_may_be_the_first(use):
    program = f"{BEGIN}{USES[use]}\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={"ACP_MPI": "0"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "import acp_mpi as acp; acp.init()"],
        ["-c", "import acp_mpi as acp; acp.rank()"],
        ["-m", "acp_mpi", "info"],
        ["-m", "acp_mpi.launch.macprun", "status"],
    ],
)
def test_the_source_that_is_not_built_says_so(arguments):
    """Whoever follows the README in its folder finds that before what is installed."""
    folder = Path(__file__).parents[2]
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {folder}/acp_mpi/engine is the")
    assert "python -P" in done.stderr
