"""What a group finds in its environment: the user's, nothing of a launcher's, and the job's."""

import re
from collections.abc import Mapping

# Set by a launcher or by Slurm for one process: whoever inherits them believes that it is that one.
_LAUNCHER = re.compile(
    r"PMI_|PMI2_|PMIX_(?!MCA_)|PRTE_(?!MCA_)|PALS_|HYDI?_|MPI_LOCAL(NRANKS|RANKID)$"
    r"|OMPI_(COMM_WORLD|WORLD|APP_CTX|FIRST_RANKS|UNIVERSE_SIZE|NUM_APP_CTX|FILE_LOCATION)"
    r"|OMPI_(COMMAND|ARGV|VERSION|TOOL_NAME|LIBDIR_LOC|MCA_PREFIXES)$"
    r"|OMPI_MCA_(num_procs|initial_wdir|cpu_type|orte_|ess_)"
    r"|SLURM_(STEP|PROCID|LOCALID|NODEID|GTIDS|TASK_PID|SRUN_COMM|LAUNCH_NODE|CPU_BIND)"
    r"|SLURM_(MPI_TYPE|PMI|PMIX|DISTRIBUTION|TOPOLOGY|UMASK|PRIO_PROCESS)"
)
# What macprun decides; an outer job's must not be joined.
_JOB = re.compile(r"ACP_(RENDEZVOUS|SECRET|SECRET_FILE|GROUP|GROUP_SIZE|GROUP_RANK|MPI|MULTIRUN)$")
# What belongs to a host, or to the session there, and means nothing on another.
_HOST = re.compile(
    r"(HOST|HOSTNAME|HOSTTYPE|MACHTYPE|OSTYPE|USER|LOGNAME|HOME|SHELL|SHLVL|MAIL|TERM|DISPLAY"
    r"|XAUTHORITY|PWD|OLDPWD|_)$|SSH_|XDG_|DBUS_"
)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the user's variables: no launcher's, none of a job that macprun itself is part of."""
    return {
        name: value
        for name, value in environ.items()
        if not _LAUNCHER.match(name) and not _JOB.match(name)
    }


def portable(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are worth taking to another host."""
    return {name: value for name, value in environ.items() if not _HOST.match(name)}
