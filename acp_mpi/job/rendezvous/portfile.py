"""The table of ports by which groups join without a launcher (paper 001, figure 5).

One row a rank: `rank nprocs lport rport host rhost`, which is its number, that of all, its own port
and host and those of the next rank. Only the first row is listened on: there is the rendezvous, and
every other address of a process is made known there. The secret of the job is in a file beside it
with a name that ends with ".secret".
"""

import os
from pathlib import Path
from typing import NamedTuple

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.address import format_address

_COLUMNS = "rank nprocs lport rport host rhost"


class Portfile(NamedTuple):
    """The content of the table: the number of ranks, and the address of the first."""

    path: str
    ranks: int
    address: str

    def secret(self) -> bytes:
        """Return the job's secret; errors as of `secret.read`."""
        return secret.read(self.path + ".secret")

    def check_group(self, offset: int, size: int) -> None:
        """Raise Error unless the table has these rows."""
        if not 0 <= offset <= self.ranks - size:
            raise Error(
                f"--acp-multirun {self.path} {offset}: a group of {size} needs the rows {offset} "
                f"to {offset + size - 1}, and there are 0 to {self.ranks - 1}; an offset is the "
                "sum of the processes before the group"
            )


class _Row(NamedTuple):
    rank: int
    nprocs: int
    port: int
    next_port: int
    host: str
    next_host: str


def read(path: str | os.PathLike[str]) -> Portfile:
    """Return the table in a file; Error names the line that is wrong and what it should say."""
    name = os.fspath(path)
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as reason:
        why = reason.strerror if isinstance(reason, OSError) else "it is not text"
        raise Error(f"the table of ports {name!r} cannot be read: {why}") from reason
    rows = [_row(name, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise Error(f"the table of ports {name!r} is empty: expected rows of {_COLUMNS}")
    for index, row in enumerate(rows):
        _check(name, rows, index, row)
    one_host = all(row.host == rows[0].host for row in rows)
    host = "127.0.0.1" if one_host else rows[0].host
    return Portfile(name, len(rows), format_address(host, rows[0].port))


def _row(name: str, number: int, line: str) -> _Row:
    where = f"the table of ports {name!r}, line {number}"
    fields = line.split()
    if len(fields) != len(_COLUMNS.split()):
        raise Error(f"{where} has {len(fields)} columns: expected {_COLUMNS}")
    try:
        rank, nprocs, port, next_port = map(int, fields[:4])
    except ValueError:
        raise Error(f"{where}: {line.strip()!r} begins with no four numbers: {_COLUMNS}") from None
    for number in (port, next_port):
        if not 0 < number < 2**16:
            raise Error(f"{where}: there is no port {number}; expected 1 to 65535")
    return _Row(rank, nprocs, port, next_port, *fields[4:])


def _check(name: str, rows: list[_Row], index: int, row: _Row) -> None:
    where = f"the table of ports {name!r}, row {index}"
    if row.rank != index:
        raise Error(f"{where} is of rank {row.rank}: expected 0 to {len(rows) - 1}, one row each")
    if row.nprocs != len(rows):
        raise Error(
            f"{where} says that there are {row.nprocs} ranks, and there are {len(rows)} rows"
        )
    following = rows[(index + 1) % len(rows)]
    if (row.next_port, row.next_host) != (following.port, following.host):
        raise Error(
            f"{where} ends with {row.next_port} {row.next_host}: expected port and host of the "
            f"next rank, {following.port} {following.host}"
        )
