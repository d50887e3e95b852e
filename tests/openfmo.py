"""What tests of the example openfmo_like share: its input, its command line, its results."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import launch
import pytest

EXAMPLES = launch.ROOT / "examples"
WATER = EXAMPLES / "openfmo_like" / "water16.xyz"
sys.path.append(str(EXAMPLES))  # whoever imports this finds the package openfmo_like

needs_pyscf = pytest.mark.skipif(
    importlib.util.find_spec("pyscf") is None,
    reason="PySCF is not installed: pip install 'acp-mpi[fmo]'",
)


def program(folder: Path, *options: object, python: str = sys.executable) -> list[str]:
    """Return its command line, to be run in `folder`, which gets examples/ and nothing else.

    The checkout's acp_mpi has no extension module and must not be found.
    """
    examples = folder / "examples"
    if not examples.exists():
        examples.symlink_to(EXAMPLES)
    return [python, "-m", "examples.openfmo_like", *map(str, options)]


def result(folder: Path) -> dict[str, Any]:
    """Return what it wrote with `--json result.json`."""
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found
