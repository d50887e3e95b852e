# What an end of a channel raises for a result of the engine.


cdef int channel_failed(Channel c, str function, int rc) except -1:
    cdef acp_channel_look l
    if rc == ACP_E_INTERRUPTED:
        return -1
    if rc == ACP_E_TIMEOUT:
        what = "no slot was free, or the link full" if c.sends else "no message came"
        raise TimeoutError(f"{function}: {what} within the given time, rank {c.peer} has not "
                           f"{'received' if c.sends else 'sent'}; give more time, or none at all")
    if rc == ACP_E_LEFT and not c.sends:
        c.over = True
        c.gathered = None
        raise _errors.EndOfChannel(f"{function}: rank {c.peer} has closed the channel, and all that it sent is received")
    if rc == ACP_E_LEFT:
        raise _errors.ClosedError(f"{function}: rank {c.peer} has closed the channel and receives nothing more; "
                                  "close this end, too")
    if rc == ACP_E_DESTROYED:
        raise _errors.ClosedError(f"{function}: this end was closed, by close(), reset or finalize; create another")
    if rc == ACP_E_HANDLE:
        raise _errors.Error(f"{function}: this thread is in a call of this end already, or inside reserve(); leave that first")
    if rc == ACP_E_FULL:
        acp_channel_look_at(c.end, &l)
        raise BufferError(f"{function}: views keep all {c.slots} slots, {l.held} messages; drop some, keep what is "
                          "needed by .copy(), or give more slots")
    if rc == ACP_E_MISMATCH:
        acp_channel_look_at(c.end, &l)
        raise ValueError(f"{function}: this end has size={c.size}, slots={c.slots}, dtype={c.dtype}, and that of "
                         f"rank {c.peer} size={l.other.size}, slots={l.other.slots}"
                         f"{'' if l.other.size != c.size or l.other.slots != c.slots else ' and another dtype'}; "
                         "give the same on both")
    raise_status(function, rc, c.peer)
