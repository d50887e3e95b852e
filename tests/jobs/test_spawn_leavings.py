"""What stays of children that die, with and without a launcher; how those end that have none."""

import contextlib
import os
import re
import signal
import sys
from pathlib import Path

import launch
import pytest
from macprunning import children

HOOK = {"ACP_SPAWN": "1"}

MINE = (
    "import os; f = open('/proc/self/maps').read().split(); "
    "print(*{w for w in f if 'sm_segment.' in w or 'mpich_shm_' in w}, flush=True)"
)


def killed_after_it_joined(folder):
    from mpi4py import MPI

    import acp_mpi as acp

    code = f"{folder!r}; from mpi4py import MPI; p = MPI.Comm.Get_parent(); {MINE}; "
    code += "p.send('said', 0); p.recv()"
    for _ in range(3):
        child = MPI.COMM_SELF.Spawn(sys.executable, ["-c", code])
        child.recv()
        launch.until(lambda: len(_processes_of(code)) == 1)
        launch.until(lambda: _was_looked_at(*_processes_of(code)))
        os.kill(*_processes_of(code), signal.SIGKILL)
        with pytest.raises(acp.PeerLostError):
            child.recv()


def _was_looked_at(pid):
    """Return whether its parent, who minds it and was told before Spawn came back, sleeps again."""
    return launch.stat(launch.stat(pid)[1])[0] == "S"


def _processes_of(code):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            text = path.read_text(errors="replace")
            if text.rstrip("\0").endswith("p.recv()") and code in text:
                found.append(int(path.parent.name))
    return found


def test_nothing_of_mpi_stays_of_a_program_that_was_killed(start, tmp_path):
    command = [*launch.mpiexec(1), *launch.program(killed_after_it_joined, tmp_path)]
    job = start(command, HOOK | {"TMPDIR": str(tmp_path)})
    assert job.wait() == 0, job.output
    launch.until(lambda: not job.processes())
    files = [word for word in job.output.split() if word.startswith("/dev/shm/")]
    assert len(files) >= 3, job.output
    assert not [path for path in files if os.path.exists(path)]
    assert not [path for path in tmp_path.rglob("jf.0/*/*") if "log" not in path.name]


def one_of_three_dies():
    from mpi4py import MPI

    import acp_mpi as acp

    code = f"from mpi4py import MPI; p = MPI.Comm.Get_parent(); {MINE}; p.recv(); os._exit(3)"
    three = MPI.COMM_SELF.Spawn(sys.executable, ["-c", code], 3)
    launch.until(lambda: launch.stat(_minder())[0] == "S")  # it has looked at them
    three.send("die", 1)
    with pytest.raises(acp.PeerLostError):
        three.recv(source=1)


def _minder():
    """Return the process that minds the only children of this one."""
    (starter,) = children(os.getpid())
    (minder,) = (
        pid
        for pid in children(starter)
        if Path(f"/proc/{pid}/comm").read_bytes() == b"acp_mpi minder\n"
    )
    return minder


def test_nothing_of_mpi_stays_of_a_group_of_which_one_died(start, tmp_path):
    job = start(launch.program(one_of_three_dies), HOOK | {"TMPDIR": str(tmp_path)})
    job.wait()
    launch.until(lambda: not job.processes())
    files = re.findall(r"/dev/shm/[^/\s]+", job.output)  # of children that print at once
    assert files, job.output
    assert not [path for path in files if os.path.exists(path)]


ENDS = {
    "1/0": r"(?s)exit code 1; .*Traceback.*:\n  File \"<string>\", line 1, .*ZeroDivisionError",
    "def f(": r"(?s)exit code 1; its last lines:\n  File \"<string>\", line 1\n.*SyntaxError",
    "raise SystemExit(7)": "exit code 7; it said nothing",
    "raise SystemExit('alas')": r"(?m)exit code 1; its last lines:\nalas$",
    "import atexit; atexit.register(print, 'late')": r"(?m)exit code 0; its last lines:\nlate$",
    "import os; os.kill(os.getpid(), 2); __import__('signal').pause()": "killed by SIGINT",
    "import os; os.kill(os.getpid(), 9)": "killed by SIGKILL",
    "import os; os.kill(os.getpid(), 40)": "killed by signal 40",
}


def ends_early():
    from mpi4py import MPI

    for code, expected in ENDS.items():
        with pytest.raises(MPI.Exception) as caught:
            MPI.COMM_SELF.Spawn(sys.executable, ["-c", code])
        (note,) = caught.value.__notes__
        assert re.search(expected, note), (code, note)
    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_SELF.Spawn("no-such-program")
    assert caught.value.__notes__[0].endswith("no-such-program: No such file or directory")
    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_SELF.Spawn(sys.executable, ["/no/such/file.py"])
    assert "exit code 2; its last lines" in caught.value.__notes__[0]
    assert "can't open file '/no/such/file.py'" in caught.value.__notes__[0]


def test_the_end_of_a_program_and_its_last_words_are_told(passes):
    passes(launch.program(ends_early), HOOK)
