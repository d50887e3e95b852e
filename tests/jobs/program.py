"""Run one function of a test file as a program: `program.py FILE FUNCTION [ARGUMENT...]`.

What a job runs stands beside the test that starts it. Nothing of pytest or NumPy is imported here.
"""

import runpy
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parent.parent)

if __name__ == "__main__":
    import launch

    launch.take_place()
    file, function, *arguments = sys.argv[1:]
    runpy.run_path(file, run_name="program")[function](*arguments)
