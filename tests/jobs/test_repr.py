"""`repr` of a container does not wait for an owner who does not answer, or has died."""

import os
import signal

import launch
import pytest
from macprunning import alone, macprun

import acp_mpi as acp


def show_what_a_stopped_rank_has():
    acp.init()
    mine = acp.Map({"a": 1}, ranks=[acp.rank()])
    theirs = acp.allgather(mine)[1]
    pid = acp.allgather(os.getpid())[1]
    if acp.rank() == 0:
        launch.freeze(pid)
        assert repr(theirs) == f"<acp_mpi.Map at {theirs.ga:#x}>"
        os.kill(pid, signal.SIGCONT)
        assert theirs["a"] == 1
        theirs["a"] = 2
    acp.sync()
    if acp.rank() == 1:
        assert mine.to_dict() == {"a": 2}
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(acp.PeerLostError):
        acp.sync()
    assert repr(theirs) == f"<acp_mpi.Map at {theirs.ga:#x}>"
    print("it is named", flush=True)


def test_a_stopped_owner_is_not_waited_for(start):
    job = start(macprun(alone(2, "w", show_what_a_stopped_rank_has)), {"ACP_PATH": "link"})
    job.wait(60)
    assert "it is named" in job.output
