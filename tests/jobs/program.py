"""Run one function of a test file as a program: `program.py FILE FUNCTION [ARGUMENT...]`.

What a job runs stands beside the test that starts it. Nothing of NumPy is imported here, and of
pytest only what the function itself uses: it is half of the time that such a process would take.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path[0] = str(Path(__file__).parent.parent)


class _Mark:
    """Marks a test or a fixture; in a program nobody asks for marks."""

    def __getattr__(self, name: str) -> "_Mark":
        return self

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else self


class _Pytest(ModuleType):
    """Stands for pytest until something but marks is used."""

    mark = fixture = param = _Mark()

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get("pytest") is self:
            del sys.modules["pytest"]
        return getattr(importlib.import_module("pytest"), name)


if __name__ == "__main__":
    import launch

    launch.take_place()
    file, function, *arguments = sys.argv[1:]
    sys.modules["pytest"] = _Pytest("pytest")
    spec = importlib.util.spec_from_file_location("program", file)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    getattr(program, function)(*arguments)
