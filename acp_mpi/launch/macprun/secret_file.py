"""The secret of a job on several hosts, in a file: launchers carry no more than its name."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import select
import shlex
import time

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Mapping, Sequence

    from acp_mpi.launch.macprun.meeting import Meeting

_PATIENCE = 30.0  # s until all hosts have it
_READY = b"acp_mpi: the secret is here\n"
# Shared by hosts; on other file systems the file is brought to each host.
_SHARED = (
    "nfs",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "afs",
    "panfs",
    "pvfs2",
    "orangefs",
    "glusterfs",
)


def folder(environ: Mapping[str, str]) -> str:
    """Return where such files lie: in the home directory, else in that of the session."""
    home = environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    if os.path.isdir(home) and os.access(home, os.W_OK):
        return os.path.join(home, ".acp_mpi")
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return os.path.join(runtime, "acp_mpi")
    raise Error(
        "a job on several hosts keeps its secret in a file, and neither HOME nor XDG_RUNTIME_DIR "
        "is a directory to write to: set HOME to one that the other hosts have, too"
    )


def path_of(meeting: Meeting, environ: Mapping[str, str]) -> str:
    """Return the name of the file of a job."""
    name = secret.job_id(meeting.secret).hex() + meeting.maker + ".secret"
    return os.path.join(folder(environ), name)


def named(starts: Iterable[Mapping[str, str]]) -> str | None:
    """Return the file that the environments of these processes name, if there is any."""
    return next((env["ACP_SECRET_FILE"] for env in starts if "ACP_SECRET_FILE" in env), None)


def carriers(
    hosts: Iterable[str], ssh: Sequence[str], environ: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """Return the commands that begin a shell on each of these hosts: one for all under Slurm."""
    import shutil  # takes time to load

    others = list(dict.fromkeys(hosts))
    if others and "SLURM_JOB_ID" in environ and shutil.which("srun", path=environ.get("PATH")):
        count = len(others)
        places = (f"--nodes={count}", f"--ntasks={count}", f"--nodelist={','.join(others)}")
        return [("srun", "--overlap", "--ntasks-per-node=1", *places, "sh")]
    return [(*ssh, host, "sh") for host in others]


class SecretFile:
    """A file for as long as this process, its maker, lives; `remove` it before."""

    def __init__(self, path: str, key: bytes) -> None:
        place = os.path.dirname(path)
        os.makedirs(place, 0o700, exist_ok=True)
        _clear_away(place)
        self.path, self._key = path, key
        self._held = self._make()
        while not os.path.exists(path):  # another macprun has taken it for an old one
            os.close(self._held)
            self._held = self._make()
        self._carriers: list[subprocess.Popen[bytes]] = []

    def _make(self) -> int:
        secret.write(self.path, self._key)
        held = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # no locks there: the file is not taken for an old one
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return held

    def bring(self, commands: Iterable[Sequence[str]], environ: Mapping[str, str]) -> list[str]:
        """Bring it to where these commands begin a shell; return what could not be done.

        The shells read it from their standard input, and remove what they have made when that
        ends, however it does.
        """
        if _is_shared(os.path.dirname(self.path)):
            return []
        import subprocess  # takes time to load

        for command in commands:
            carrier = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=environ, process_group=0, bufsize=0,
            )  # fmt: skip
            assert carrier.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                carrier.stdin.write(self._script().encode())
            self._carriers.append(carrier)
        deadline = time.monotonic() + _PATIENCE
        return [
            f"{shlex.join(map(str, carrier.args))} did not bring the secret to other hosts, which "  # type: ignore[arg-type]
            f"need {self.path} then: let the command work without a question, or share the home "
            "directory"
            for carrier in self._carriers
            if not _is_ready(carrier, deadline)
        ]

    def remove(self) -> None:
        """Remove it here and where it was brought."""
        for carrier in self._carriers:
            assert carrier.stdin is not None
            carrier.stdin.close()
        deadline = time.monotonic() + 1.0
        for carrier in self._carriers:
            _end(carrier, deadline)
        self._carriers.clear()
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        os.close(self._held)

    def _script(self) -> str:
        lines = [
            "{",
            "umask 077; set -C",
            f"file={shlex.quote(self.path)}",
            'mkdir -p "${file%/*}"',
            f'if [ ! -e "$file" ] && echo {self._key.hex()} > "$file"; then',
            "  trap 'rm -f \"$file\"' EXIT",
            "  trap 'exit 1' HUP INT TERM",
            "fi",
            f'[ -r "$file" ] && echo {shlex.quote(_READY.decode().strip())}',
            "cat > /dev/null",
            "exit",
            "}",
        ]
        return "\n".join(lines) + "\n"


def _end(carrier: subprocess.Popen[bytes], deadline: float) -> None:
    import subprocess  # takes time to load

    with contextlib.suppress(subprocess.TimeoutExpired):
        carrier.wait(max(deadline - time.monotonic(), 0.0))
    if carrier.poll() is None:
        carrier.kill()
        carrier.wait()
    assert carrier.stdout is not None
    carrier.stdout.close()


def _is_ready(carrier: subprocess.Popen[bytes], deadline: float) -> bool:
    assert carrier.stdout is not None
    said, line = b"", carrier.stdout.fileno()
    while _READY not in said:
        left = max(deadline - time.monotonic(), 0.0)
        if not select.select([line], [], [], left)[0]:
            return False
        data = os.read(line, 4096)
        if not data:
            return False
        said += data
    return True


def _is_shared(place: str) -> bool:
    """Return whether other hosts see the same directory, as far as its file system says."""
    device = os.stat(place).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for mount in mounts:
            words = mount.split()
            if words[2] == wanted:
                kind = words[words.index("-") + 1].removeprefix("fuse.")
                return kind.startswith(_SHARED)
    return False


def _clear_away(place: str) -> None:
    """Remove the files of jobs that are gone: no process holds them."""
    for name in os.listdir(place):
        path = os.path.join(place, name)
        if not name.endswith(".secret"):
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(descriptor)
