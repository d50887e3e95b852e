"""A Python program that is named on a command line: whether it is there, and its run."""

import os
import runpy
import sys
from collections.abc import Sequence


def refusal(path: str) -> str:
    """Return why nothing can be run at a path, and what to give; "" if something can."""
    if not os.path.exists(path):
        return f"there is no program {path!r} here; give the path of one"
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        return f"{path!r} is a folder without a __main__.py; give the path of a program"
    if not os.access(path, os.R_OK):
        return f"the program {path!r} cannot be read; give one that you may read"
    return ""


def run(path: str, arguments: Sequence[str]) -> None:
    """Run a program as `__main__`, as Python itself does."""
    sys.argv = [path, *arguments]
    if not sys.flags.safe_path:  # as Python does for `python app.py`
        sys.path[0] = os.path.dirname(os.path.abspath(path))
    runpy.run_path(path, run_name="__main__")
