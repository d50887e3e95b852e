"""A process of this host that is not our child: when it ends, and how."""

import contextlib
import fcntl
import os
import struct
from typing import Self

from acp_mpi.job.rendezvous.row import Process
from acp_mpi.util import host, processes

# `struct pidfd_info` of linux/pidfd.h: mask, number of a control group, eleven identities, and the
# status of `waitpid`, which the kernel keeps (since Linux 6.15) when the parent has collected it.
_INFO = struct.Struct("<QQ11Ii")
_EXIT = 1 << 3  # in the mask
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
_STATUS = 52 - 3  # among the fields of /proc/PID/stat that follow the name


class Watch:
    """Is readable when its process has ended."""

    def __init__(self, pid: int) -> None:
        self._pid, self._fd = pid, processes.end_of(pid)

    @classmethod
    def of(cls, process: Process) -> Self | None:
        """Return the watch of a process of a job; None if that is not here.

        ProcessLookupError: it has ended. OSError: no descriptor is left for it.
        """
        if process.host != host.host_key():
            return None
        watch = cls(process.pid)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if processes.start_time(process.pid) == process.start_time:
                return watch
        watch.close()
        raise ProcessLookupError(process.pid)

    def fileno(self) -> int:
        """Return the descriptor to wait at."""
        return self._fd

    def status(self) -> int | None:
        """Return the status of a process that has ended, from `waitpid`; None: not known.

        Before its parent collects it the process shows it itself, after that the kernel may.
        """
        for look in (self._collected, self._shown, self._collected):
            if (status := look()) is not None:
                return status
        return None

    def close(self) -> None:
        """Watch no more."""
        os.close(self._fd)

    def _collected(self) -> int | None:
        info = bytearray(_INFO.size)
        _INFO.pack_into(info, 0, _EXIT, *[0] * 13)
        try:
            fcntl.ioctl(self._fd, _GET_INFO, info)
        except OSError:  # an older kernel, or not collected yet
            return None
        mask, *_, status = _INFO.unpack(info)
        return int(status) if mask & _EXIT else None

    def _shown(self) -> int | None:
        try:
            with open(f"/proc/{self._pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return None
        return int(fields[_STATUS]) if fields[0] in b"ZX" else None
