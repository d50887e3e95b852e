"""What is longer than 2**31 bytes: no size or offset on its way is a signed word."""

from typing import Any

import launch
import numpy as np
import pytest

import acp_mpi as acp

MIB = 1 << 20


def longer_than_a_signed_word_counts() -> None:
    """Of 2 GiB and a bit: by collectives, into a posted receive, after a matched probe, cut."""
    acp.init()
    n, r = (1 << 31) + MIB + 5, acp.rank()
    x, out = np.full(n, 7 if r == 0 else 3, np.uint8), np.zeros(n, np.uint8)
    x[-1] = 9
    half = n // 2
    if r == 1:
        request = acp.irecv(out, 0, 1)
    acp.sync()
    if r == 0:
        acp.send(x, 1, 1)
        acp.send(x, 1, 2)
        with pytest.raises(acp.TruncationError, match=str(n)):
            acp.recv(np.zeros(10, np.uint8), 1, 3)
    else:
        request.wait()
        assert (out[0], out[half], out[-1]) == (7, 7, 9)
        out[:] = 0
        acp.mprobe(0, 2).recv(out)
        assert (out[0], out[half], out[-1]) == (7, 7, 9)
        acp.send(x, 0, 3)
    out[:] = 0
    acp.bcast(x if r == 0 else None, 0, out=() if r == 0 else out)
    assert r == 0 or (out[0], out[half], out[-1]) == (7, 7, 9)
    acp.allgather(x[:half] if r == 0 else x[half:], out=out, counts=[half, n - half])
    assert (out[0], out[half - 1], out[half], out[-1]) == (7, 7, 3, 9)
    acp.allreduce(x, out=out)
    assert (out[0], out[half], out[-1]) == (10, 10, 18)
    acp.finalize()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_is_longer_than_two_gib_is_whole(passes: Any) -> None:
    command = [*launch.mpiexec(2), *launch.program(longer_than_a_signed_word_counts)]
    passes(command, {"ACP_HEAP_SIZE": "6G"}, limit=240.0)
