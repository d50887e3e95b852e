"""Joining processes to one job: `rendezvous`, where they meet, `macprun`, which starts them.

`init` joins by the first. `mpi` is mpi4py's `MPI` with communicators of ours for ranks of several
groups: `from acp_mpi.spawn import MPI`, or `python -m acp_mpi.spawn app.py` for a program that is
left as it is. The rooms of memory and containers know none of them.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpi4py import MPI as MPI


def __getattr__(name: str) -> object:
    if name == "MPI":
        from acp_mpi.spawn import hook

        return hook.put_in_place()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
