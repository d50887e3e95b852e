"""Files that MPI makes for a process without a launcher, and leaves when that is killed.

A launcher clears them away; here it is who minds the process.
"""

from __future__ import annotations

import contextlib
import os

from acp_mpi import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# In memory, as Open MPI 5, Open MPI 4 and MPICH name them.
_FILES = ("/dev/shm/sm_segment.", "/dev/shm/vader_segment.", "/dev/shm/mpich_shm_")


class Leavings:
    """What processes have mapped of it, as far as they were looked at."""

    def __init__(self) -> None:
        self._files: dict[int, set[tuple[str, int]]] = {}

    def look(self, pid: int) -> None:
        """Note the files of a process that lives, and of its children."""
        found = self._files.setdefault(pid, set())
        for one in processes.family(pid):
            with contextlib.suppress(OSError), open(f"/proc/{one}/maps") as maps:
                for line in maps:
                    *_, inode, path = line.rstrip("\n").split(" ", 5)
                    if path.lstrip().startswith(_FILES):
                        found.add((path.lstrip(), int(inode)))

    def remove(self, pid: int, env: Mapping[str, str]) -> None:
        """Remove what a process that had this environment has left."""
        for path, inode in self._files.pop(pid, ()):
            with contextlib.suppress(OSError):
                if os.stat(path).st_ino == inode:  # and not of another that has the name now
                    os.unlink(path)
                    _remove_session(path, env)


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
