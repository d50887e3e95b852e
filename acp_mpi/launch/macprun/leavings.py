"""Files that MPI makes for processes, and leaves when they are killed.

Without a launcher the parent clears them away; a launcher itself, Open MPI's does, unless
it is killed, MPICH's does not.
"""

from __future__ import annotations

import os

from acp_mpi.util._system import memfd_create

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# In memory, as Open MPI 5, Open MPI 4 and MPICH name them.
_FILES = (b"/dev/shm/sm_segment.", b"/dev/shm/vader_segment.", b"/dev/shm/mpich_shm_")


_noted = -1  # a file in memory for what is seen, also by a process that is killed meanwhile


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
    place = next((env[n] for n in ("TMPDIR", "TEMP", "TMP") if env.get(n)), "/tmp")
    folder = os.path.join(place, f"ompi.{who}", "jf.0", str(int(job, 16)))
    os.rmdir(os.path.join(folder, rank))
    os.rmdir(folder)
