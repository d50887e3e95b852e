"""The table that a terminal shows while the groups of a job come together."""

import io
import os
import pty
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.arrival import Arrival
from acp_mpi.job.rendezvous.connector import join
from acp_mpi.launch.macprun.table import Table, rows

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


def read_to(screen, end):
    """Return what comes to a terminal, in however many pieces."""
    seen = b""
    while not seen.endswith(end):
        seen += screen.read(4096)
    return seen


def test_it_is_drawn_over_itself_and_taken_away(monkeypatch):
    monkeypatch.setattr("acp_mpi.launch.macprun.table._AFTER", 0.0)
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal, os.fdopen(master, "rb", buffering=0) as screen:
        table = Table(terminal)
        assert table.show(lambda: CAME)
        assert b"worker" in read_to(screen, b"exit code 3\r\n")
        assert not table.show(lambda: CAME[:1])
        assert read_to(screen, b"\x1b[J") == b"\x1b[4A\x1b[J"
        table.hide()


def shown(text):
    """Return the lines that a terminal shows after all that was written to it."""
    lines = [""]
    for word in re.findall(r"\x1b\[\d+A|\x1b\[J|\r?\n|[^\x1b\r\n]+", text):
        if word.endswith("A"):
            del lines[-1 - int(word[2:-1]) :]
            lines.append("")
        elif word.endswith("\n"):
            lines.append("")
        elif not word.startswith("\x1b"):
            lines[-1] += word
    return lines


def test_what_is_said_meanwhile_stays_above_it(tmp_path):
    """A warning of the library, from another thread, while the table is drawn."""
    secret.create(tmp_path / "secret")
    command = [sys.executable, "-P", "-m", "acp_mpi.launch.macprun", "serve", "--groups", "2",
               "--secret-file", str(tmp_path / "secret")]  # fmt: skip
    master, slave = pty.openpty()
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, text=True) as program,
        os.fdopen(master, "rb", buffering=0) as screen,
    ):
        os.close(slave)
        host, _, port = program.stdout.readline().strip().partition("=")[2].rpartition(":")
        seen = ""

        def drawn():
            return seen.count("waiting for")

        def see(condition):
            nonlocal seen
            while not condition():
                seen += screen.read(4096).decode()

        see(drawn)
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(bytes(100))
            see(lambda: "dropped" in seen)
        times = drawn()
        see(lambda: drawn() >= times + 3 and seen.endswith("nobody yet\r\n"))
        program.kill()
    warning, table, *groups, rest = shown(seen)
    assert re.match(r"macprun: connection from \S+ dropped: ", warning)
    assert re.match(r"macprun: waiting for \d+ s", table)
    assert (len(groups), rest) == (2, "")


def test_groups_without_a_name_are_waited_for_too():
    assert rows((CAME[0], Arrival("", None, None)), 3.4)[1:] == [
        "  master         1 of 1  here pid 7",
        "                 0 of ?  nobody yet",
    ]


def test_a_rendezvous_on_a_terminal_shows_who_has_come(tmp_path):
    key = secret.create(tmp_path / "secret")
    command = [sys.executable, "-P", "-m", "acp_mpi.launch.macprun", "serve", "--groups", "2",
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
