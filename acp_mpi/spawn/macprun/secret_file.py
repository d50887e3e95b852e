"""The secret of a job that reaches other hosts, in a file: launchers carry no more than its name."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shlex
import subprocess
import time
from pathlib import Path

from acp_mpi.errors import Error
from acp_mpi.spawn.rendezvous import secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PATIENCE = 30.0  # s until all hosts have it
_READY = b"acp_mpi: the secret is here\n"
# What hosts have in common; on others the file is brought to each host.
_SHARED = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "panfs", "pvfs2", "orangefs", "glusterfs")


def folder(environ: Mapping[str, str]) -> str:
    """Return where such files lie: in the home directory, else in that of the session."""
    home = environ.get("HOME", "")
    if os.path.isdir(home) and os.access(home, os.W_OK):
        return os.path.join(home, ".acp_mpi")
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return os.path.join(runtime, "acp_mpi")
    raise Error(
        "a job on several hosts keeps its secret in a file, and neither HOME nor XDG_RUNTIME_DIR "
        "is a directory to write to: set HOME to one that the other hosts have, too"
    )


def path_of(key: bytes, environ: Mapping[str, str], maker: str = "") -> str:
    """Return the name of the file; `maker`: of several in one job who has made it."""
    return os.path.join(folder(environ), secret.job_id(key).hex() + maker + ".secret")


class SecretFile:
    """A file for as long as this process, its maker, lives; `remove` it before."""

    def __init__(self, path: str, key: bytes) -> None:
        place = Path(path).parent
        place.mkdir(mode=0o700, exist_ok=True)
        _clear_away(place)
        self.path, self._key = path, key
        secret.write(path, key)
        self._held = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a file system without locks: nobody takes it for old
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._carriers: list[subprocess.Popen[bytes]] = []

    def bring(self, commands: Iterable[Sequence[str]], environ: Mapping[str, str]) -> list[str]:
        """Bring it to where these commands begin a shell; return what could not be done.

        The shells read it from their standard input, and remove what they have made when that
        ends, however it does.
        """
        if _is_shared(os.path.dirname(self.path)):
            return []
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
            with contextlib.suppress(subprocess.TimeoutExpired):
                carrier.wait(max(deadline - time.monotonic(), 0.0))
            if carrier.poll() is None:
                carrier.kill()
                carrier.wait()
        self._carriers.clear()
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        os.close(self._held)

    def _script(self) -> str:
        path, place = shlex.quote(self.path), shlex.quote(os.path.dirname(self.path))
        lines = [
            "{",
            "umask 077; set -C",
            f"mkdir -p {place}",
            f"if [ ! -e {path} ] && echo {self._key.hex()} > {path}; then",
            f"  trap 'rm -f '{shlex.quote(path)} EXIT",
            "  trap 'exit 1' HUP INT TERM",
            "fi",
            f"[ -r {path} ] && echo {shlex.quote(_READY.decode().strip())}",
            "cat > /dev/null",
            "exit",
            "}",
        ]
        return "\n".join(lines) + "\n"


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


def _clear_away(place: Path) -> None:
    """Remove the files of jobs that are gone: nobody holds them."""
    for path in place.glob("*.secret"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(descriptor)
