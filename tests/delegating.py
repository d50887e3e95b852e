"""What tests of delegates share."""

from growing import PATIENCE

import acp_mpi as acp


def blocked(d, gate):
    """Return a command that is under way until there is the file `gate`."""
    return d.call("growing:until_there", str(gate))


def the_delegate(local=False):
    d = acp.delegate(local=local, timeout=PATIENCE)
    assert acp.delegate(local=local, timeout=PATIENCE) is d
    return d


def pid_of(d):
    """Return the process of a delegate."""
    from acp_mpi.engine import _engine
    from acp_mpi.job.rendezvous.row import Process

    return Process.of(_engine.row_of(_engine.slot_of(d.rank))).pid
