"""Bytes between ranks for the library's own use: collectives and communicators are made of it.

Each user has a context of its own, a number below 2**63; 0 is that of `acp.send`. Messages of
different contexts never meet. `function` is the name that errors begin with. Data are buffers,
received as bytes or into a buffer; the note is a word for the receiver, in `Status.note`.
"""

from acp_mpi.engine._engine import transfer_end as end
from acp_mpi.engine._engine import transfer_give_up as give_up
from acp_mpi.engine._engine import transfer_irecv as irecv
from acp_mpi.engine._engine import transfer_isend as isend
from acp_mpi.engine._engine import transfer_probe as probe
from acp_mpi.engine._engine import transfer_soon as soon

__all__ = ["end", "give_up", "irecv", "isend", "probe", "soon"]
