"""The registry of a job that grows: what it keeps of processes that end."""

import os
import socket

from arriving import SECRET

from acp_mpi import host, processes
from acp_mpi.spawn.growing.registry import Registry
from acp_mpi.spawn.rendezvous.membership import Membership
from acp_mpi.spawn.rendezvous.row import _ROW


def test_nothing_is_kept_of_a_process_that_ends_while_it_is_looked_at(monkeypatch):
    """It can be opened, and is gone when it is asked since when it runs."""
    child = os.fork()
    if not child:
        os._exit(0)
    start_time = processes.start_time

    def collect_first(pid):
        os.waitpid(pid, 0)
        return start_time(pid)

    monkeypatch.setattr(processes, "start_time", collect_first)
    table = Membership()
    row = _ROW.pack(1, 0, start_time(child), child, 0, 0, 0, 0, 0, b"", host.host_key())
    table.append("a", False, row)
    before = os.listdir("/proc/self/fd")
    left, listener = os.eventfd(0), socket.create_server(("127.0.0.1", 0))
    Registry(SECRET, table, listener, (), range(0), left).serve()
    os.close(left)
    assert len(os.listdir("/proc/self/fd")) == len(before)
