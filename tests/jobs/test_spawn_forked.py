"""Programs that are forked from a template find what they would find if started anew."""

import os
import re
import sys
from pathlib import Path

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}
PROGRAM = Path(__file__).with_name("surroundings.py")


def _words(kind):
    if kind == "code":
        return ["-c", PROGRAM.read_text(), "an argument", ""]
    return [os.path.relpath(PROGRAM) if kind == "relative" else str(PROGRAM), "an argument", ""]


def each_in_turn(kind):
    """Spawn the same program again and again: the first is started, the last is forked."""
    from mpi4py import MPI

    heard = []
    for _ in range(3):
        child = MPI.COMM_SELF.Spawn(sys.executable, _words(kind))
        heard.append(child.recv(source=0))
        child.Disconnect()
    (first, one, size), _, (last, other, _) = heard
    assert (first, last, size) == (False, True, 1)
    for name in one:
        assert one[name] == other[name], (name, one[name], other[name])


@pytest.mark.parametrize("kind", ["code", "file", "relative"])
def test_a_forked_program_finds_what_a_started_one_finds(passes, kind):
    passes(launch.program(each_in_turn, kind), HOOK)


def with_another_environment():
    """What may have had its effect when the template began is no matter of a fork."""
    from mpi4py import MPI

    for number in range(4):
        os.environ["COLOUR"] = str(number // 3)
        child = MPI.COMM_SELF.Spawn(sys.executable, _words("file"))
        forked, seen, _ = child.recv(source=0)
        child.Disconnect()
        assert forked == (number in (1, 2))
        assert ("COLOUR", str(number // 3)) in seen["environment"]


def test_a_program_with_another_environment_is_started_anew(passes):
    passes(launch.program(with_another_environment), HOOK | {"COLOUR": "0"})


ENDS = {
    "1/0": r"(?s)exit code 1; .*Traceback.*:\n  File \"<string>\", line 1, .*ZeroDivisionError",
    "def f(": r"(?s)exit code 1; its last lines:\n  File \"<string>\", line 1\n.*SyntaxError",
    "raise SystemExit(7)": "exit code 7; it said nothing",
    "raise SystemExit('alas')": r"exit code 1; its last lines:\nalas$",
    "import atexit; atexit.register(print, 'late')": r"exit code 0; its last lines:\nlate$",
    "import os; os.kill(os.getpid(), 2); __import__('signal').pause()": "killed by SIGINT",
    "import os; os.kill(os.getpid(), 9)": "killed by SIGKILL",
}


def ends_as_python_does():
    from mpi4py import MPI

    for _ in range(2):  # the first is started anew
        for code, expected in ENDS.items():
            with pytest.raises(MPI.Exception) as caught:
                MPI.COMM_SELF.Spawn(sys.executable, ["-c", code])
            (note,) = caught.value.__notes__
            assert re.search(expected, note), (code, note)
            assert "growing" not in note or "KeyboardInterrupt" in note
    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_SELF.Spawn(sys.executable, ["/no/such/file.py"])
    assert "exit code 2; its last lines" in caught.value.__notes__[0]
    assert "can't open file '/no/such/file.py'" in caught.value.__notes__[0]


def test_a_forked_program_ends_as_python_does(passes):
    passes(launch.program(ends_as_python_does), HOOK)
