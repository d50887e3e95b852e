"""The secret of a job: 256 bits that its processes alone share."""

from __future__ import annotations

import os
import stat

from acp_mpi.engine import _engine
from acp_mpi.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SIZE = 32


def create(path: str | os.PathLike[str]) -> bytes:
    """Write a fresh secret as `write` does, and return it."""
    secret = os.urandom(SIZE)
    write(path, secret)
    return secret


def write(path: str | os.PathLike[str], secret: bytes) -> None:
    """Write a secret to a new file that only its owner can read.

    A file that exists is never touched: another job may be using it.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(secret.hex() + "\n")


def read(path: str | os.PathLike[str]) -> bytes:
    """Return the secret in a file of 64 hexadecimal digits.

    Raises PermissionError if any user but the calling one may read the file, and Error if there is
    no such file or no secret in it.
    """
    try:
        # a pipe of that name may have no writer, and a terminal must not become this process's
        with open(
            os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb"
        ) as file:
            # of the open file, so that it cannot be swapped between look and read
            state = os.fstat(file.fileno())
            _refuse_if_shared(path, state)
            text = file.read(2 * SIZE + 2)
    except PermissionError:
        raise
    except OSError as reason:
        raise Error(
            f"the secret file {os.fspath(path)!r} cannot be read: {reason.strerror}; "
            f"make one with `macprun secret {os.fspath(path)}`"
        ) from reason
    return _parse(text, f"the secret file {os.fspath(path)!r}")


def load(environ: Mapping[str, str]) -> bytes:
    """Return the secret that an environment names.

    `ACP_SECRET_FILE` is the path of a file as `create` writes it and goes before `ACP_SECRET`,
    which is the 64 digits themselves. Raises Error if neither is set.
    """
    if path := environ.get("ACP_SECRET_FILE"):
        return read(path)
    if digits := environ.get("ACP_SECRET"):
        return _parse(digits.encode(), "ACP_SECRET")
    raise Error(
        "this job has no secret: set ACP_SECRET_FILE to a file of mode 0600 with 64 "
        "hexadecimal digits, the same for all processes of the job"
    )


def job_id(secret: bytes) -> bytes:
    """Return the public name of the job that has this secret: 16 bytes."""
    return _engine.sha256(b"acp job" + secret)[:16]


def _refuse_if_shared(path: str | os.PathLike[str], state: os.stat_result) -> None:
    name = os.fspath(path)
    if not stat.S_ISREG(state.st_mode):
        raise Error(f"the secret file {name!r} is not a regular file")
    if state.st_uid != os.geteuid():
        raise PermissionError(
            f"the secret file {name!r} belongs to user {state.st_uid}, who knows "
            f"the secret then; it must belong to user {os.geteuid()}"
        )
    if state.st_mode & 0o077:
        raise PermissionError(
            f"the secret file {name!r} has mode "
            f"{stat.S_IMODE(state.st_mode):04o}: others than its owner may use "
            f"it; run `chmod 600 {name}`, or better make a new secret"
        )


def _parse(digits: bytes, where: str) -> bytes:
    digits = digits.strip()
    try:
        secret = bytes.fromhex(digits.decode("ascii"))
        if len(digits) == 2 * SIZE == 2 * len(secret):  # blanks between them would be left out
            return secret
    except ValueError:
        pass
    # what is there instead may be a damaged secret: it is not shown
    raise Error(f"{where} does not hold {2 * SIZE} hexadecimal digits")
