"""The table that a terminal shows while the groups of a job come together."""

import io
import os
import pty
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from acp_mpi.spawn.macprun.table import Table, rows
from acp_mpi.spawn.rendezvous import secret
from acp_mpi.spawn.rendezvous.arrival import Arrival
from acp_mpi.spawn.rendezvous.connector import join

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


def test_groups_without_a_name_are_waited_for_too():
    assert rows((CAME[0], Arrival("", None, None)), 3.4)[1:] == [
        "  master         1 of 1  here pid 7",
        "                 0 of ?  nobody yet",
    ]


def test_a_rendezvous_on_a_terminal_shows_who_has_come(tmp_path):
    key = secret.create(tmp_path / "secret")
    command = [sys.executable, "-P", "-m", "acp_mpi.spawn.macprun", "serve", "--groups", "2",
               "--secret-file", str(tmp_path / "secret")]  # fmt: skip
    master, slave = pty.openpty()
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, text=True) as program,
        ThreadPoolExecutor(2) as pool,
        os.fdopen(master, "rb", buffering=0) as screen,
    ):
        os.close(slave)
        address = program.stdout.readline().strip().partition("=")[2]
        groups = [pool.submit(join, address, key, "ocean", 1, True, [(0, bytes(64))])]
        seen = b""
        while not re.search(rb"ocean +1 of 1 .*\n +0 of \? +nobody yet", seen):
            seen += screen.read(4096)
        groups.append(pool.submit(join, address, key, "ice", 1, True, [(0, bytes(64))]))
        assert [len(group.result()) for group in groups] == [2, 2]
        assert program.wait(20) == 0


def test_nothing_is_drawn_where_there_is_no_terminal():
    stream = io.StringIO()
    assert not Table(stream).show(lambda: CAME)
    assert stream.getvalue() == ""
