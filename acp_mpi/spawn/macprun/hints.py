"""What an MPI is told about where it runs, by variables that the user has not set.

It holds for one group: what that starts itself may run elsewhere. So the group is told which of its
variables are hints, and does not hand them on.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMED = "ACP_HINTS"

# UCX patches the C library in each process, to hear of memory that goes back to the system. Only
# networks with registered memory need that, and it is a quarter of MPI's start.
ONE_HOST = {"UCX_MEM_MMAP_HOOK_MODE": "none"}
# Open MPI's processes spin while they wait, and yield only if they know that cores are scarce. They
# do not: the slots that they are told are as many as processes.
CROWDED = {"OMPI_MCA_mpi_yield_when_idle": "1"}


def with_hints(env: Mapping[str, str], hints: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with those of the hints for which it has nothing else."""
    new = {name: value for name, value in hints.items() if name not in env}
    named = {_NAMED: " ".join(f"{name}={value}" for name, value in new.items())} if new else {}
    return {**env, **new, **named}


def without_hints(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the hints that were given to this process."""
    hints = {tuple(word.split("=", 1)) for word in env.get(_NAMED, "").split()}
    return {
        name: value for name, value in env.items() if name != _NAMED and (name, value) not in hints
    }
