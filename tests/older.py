"""Run a command as on RHEL 8: Linux 4.18, and a Python without what is newer in `os`.

    python tests/older.py COMMAND ...

System calls that came later give ENOSYS, for the command and whatever it starts.
"""

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

_FIRST_LATER = 424  # pidfd_send_signal; new system calls have one number everywhere since
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2  # of prctl
_LOAD, _IF_AT_LEAST, _RETURN = 0x20, 0x35, 0x06  # instructions of BPF: a word, a jump, an end
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000

PYTHON = Path(__file__).with_name("older_python")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def older_kernel() -> None:
    """Refuse system calls that Linux 4.18 did not have, to this process and its descendants."""
    code = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (_LOAD, 0, 0, 0),  # the number of the call
            (_IF_AT_LEAST, 0, 1, _FIRST_LATER),
            (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SECCOMP, _FILTER, ctypes.byref(program))):
        if libc.prctl(*call):
            raise OSError(ctypes.get_errno(), "prctl")


def main() -> None:
    """Become the command."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.environ["PYTHONPATH"] = str(PYTHON)
    older_kernel()
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
