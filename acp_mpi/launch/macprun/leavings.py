"""Files that MPI makes for processes, and leaves when they are killed.

Without a launcher the parent clears them away; a launcher itself, Open MPI's does, unless
it is killed, MPICH's does not. The folder of session_folder stays empty, for remove_session_folder.
"""

from __future__ import annotations

import os

from acp_mpi.launch.macprun import hints
from acp_mpi.util._system import memfd_create

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# In memory, as Open MPI 5, Open MPI 4 and MPICH name them.
_FILES = (b"/dev/shm/sm_segment.", b"/dev/shm/vader_segment.", b"/dev/shm/mpich_shm_")


_SESSIONS = "OMPI_MCA_orte_tmpdir_base"  # where a launcher of Open MPI 4 has its session's files

_noted = -1  # a file in memory for what is seen, also by a process that is killed meanwhile


def session_folder(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that gives a launcher of Open MPI 4 a folder of its own.

    Launchers of one user share a folder, which each of them removes when it is empty, also as it
    starts: one in fifty that start together fails, for the folder goes that it has just made.
    """
    name = f"ompi.{os.urandom(4).hex()}.{os.getpid()}"
    return {_SESSIONS: os.path.join(_temporary(env), name)}


def remove_session_folder(env: Mapping[str, str]) -> None:
    """Remove the folder of a launcher that has ended, if session_folder named it."""
    if hints.is_hint(_SESSIONS, env):
        try:
            os.rmdir(env[_SESSIONS])
        except OSError:  # not made, or a launcher was killed and left files
            pass


def note_for_another() -> None:
    """Have what this process, or a child that it forks, sees of such files known to both."""
    global _noted
    _noted = memfd_create("acp_mpi.leavings")


class Leavings:
    """The files of some processes that have this environment, as far as they were looked at."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._files: set[tuple[str, int]] = set()

    def look(self, pids: Iterable[int]) -> None:
        """Note what processes have mapped that live."""
        for pid in pids:
            new = set(_mapped(pid)) - self._files
            self._files |= new
            if new and _noted >= 0:
                os.write(_noted, b"".join(b"%d %s\n" % (at, os.fsencode(path)) for path, at in new))

    def look_at_notes(self) -> None:
        """Take over what is noted: the processes that noted or mapped it may have ended."""
        with open(f"/proc/self/fd/{_noted}", "rb") as notes:
            for line in notes:
                inode, _, path = line.rstrip(b"\n").partition(b" ")
                self._files.add((os.fsdecode(path), int(inode)))

    def remove(self) -> None:
        """Remove what is left of it."""
        while self._files:
            path, inode = self._files.pop()
            try:
                if os.stat(path).st_ino == inode:  # and not of another that has the name now
                    os.unlink(path)
                    _remove_session(path, self._env)
            except (OSError, ValueError):  # gone, or not of the form of these
                pass
        remove_session_folder(self._env)


def _mapped(pid: int) -> Iterator[tuple[str, int]]:
    try:
        with open(f"/proc/{pid}/maps", "rb") as maps:
            for line in maps:
                at = line.find(b"/")
                if line.startswith(_FILES, max(at, 0)):
                    yield os.fsdecode(line[at:-1]), int(line[:at].split()[-1])
    except OSError:  # it has ended, or is another user's
        pass


def _remove_session(path: str, env: Mapping[str, str]) -> None:
    """Remove the directory that Open MPI has for the job of a file; it is empty."""
    kind, _, name = os.path.basename(path).partition(".")
    if kind != "sm_segment":
        return
    who, job, rank = name.rsplit(".", 2)
    folder = os.path.join(_temporary(env), f"ompi.{who}", "jf.0", str(int(job, 16)))
    os.rmdir(os.path.join(folder, rank))
    os.rmdir(folder)


def _temporary(env: Mapping[str, str]) -> str:
    """Return where Open MPI has its temporary files."""
    return next((env[name] for name in ("TMPDIR", "TEMP", "TMP") if env.get(name)), "/tmp")
