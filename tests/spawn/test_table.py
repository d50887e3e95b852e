"""The table that a terminal shows while the groups of a job come together."""

import io
import os
import pty

from acp_mpi.spawn.macprun.table import Table, rows
from acp_mpi.spawn.rendezvous.arrival import Arrival

CAME = (
    Arrival("master", 1, False, (0,), ("here pid 7",)),
    Arrival("worker", 4, None),
    Arrival("data", 2, True, (), (), "exit code 3"),
)


def test_it_says_who_came_and_from_where():
    assert rows(CAME, 3.4) == [
        "macprun: waiting for 3 s",
        "  master         1 of 1  here pid 7",
        "  worker         0 of 4  nobody yet",
        "  data           0 of 2  exit code 3",
    ]


def test_it_is_drawn_over_itself_and_taken_away(monkeypatch):
    monkeypatch.setattr("acp_mpi.spawn.macprun.table._AFTER", 0.0)
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal, os.fdopen(master, "rb", buffering=0) as screen:
        table = Table(terminal)
        assert table.show(lambda: CAME)
        assert b"worker" in screen.read(4096)
        assert not table.show(lambda: CAME[:1])
        assert screen.read(4096) == b"\x1b[4A\x1b[J"
        table.hide()


def test_nothing_is_drawn_where_there_is_no_terminal():
    stream = io.StringIO()
    assert not Table(stream).show(lambda: CAME)
    assert stream.getvalue() == ""
