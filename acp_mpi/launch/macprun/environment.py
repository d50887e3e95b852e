"""The environment of a group: the user's, nothing of a launcher's, and the job's."""

import itertools
import os
import sys
from collections.abc import Container, Mapping

from acp_mpi.launch.macprun.hints import without_hints

# Set by a launcher or by Slurm for one process: a process that inherits them takes itself for it.
_LAUNCHER = (
    "PMI_", "PMI2_", "PMIX_", "PRTE_", "PALS_", "HYD_", "HYDI_", "HYDRA_BSTRAP_",
    "HYDRA_LAUNCH_TYPE", "HYDRA_IP_VERSION", "I_MPI_HYDRA_UUID", "I_MPI_INFO_", "I_MPI_PIN_INFO",
    "I_MPI_PIN_MAPPING", "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID", "OMPI_COMM_WORLD_", "OMPI_WORLD_", "OMPI_APP_CTX", "OMPI_FIRST_RANKS",
    "OMPI_UNIVERSE_SIZE", "OMPI_NUM_APP_CTX", "OMPI_FILE_LOCATION", "OMPI_COMMAND", "OMPI_ARGV",
    "OMPI_VERSION", "OMPI_TOOL_NAME", "OMPI_LIBDIR_LOC", "OMPI_MCA_PREFIXES",
    "OPAL_USER_PARAMS_GIVEN",
    "OMPI_MCA_num_procs", "OMPI_MCA_initial_wdir", "OMPI_MCA_cpu_type",
    "SLURM_STEP", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS",
    "SLURM_TASK_PID", "SLURM_SRUN_COMM", "SLURM_LAUNCH_NODE",
    "SLURM_PMI", "SLURM_TOPOLOGY", "SLURM_UMASK", "SLURM_PRIO_PROCESS",
)  # fmt: skip
# Also settings of users, so they go only where there is what a process has of that launcher.
_DOUBTFUL = {
    ("SLURM_STEP_ID", "SLURM_STEPID"): ("SLURM_CPU_BIND", "SLURM_MPI_TYPE", "SLURM_DISTRIBUTION"),
}
_OF_OPEN_MPI = "OMPI_COMM_WORLD_SIZE"  # every process has it that this launcher has started
# Set by that of Open MPI 4 among settings of users, which a process without launcher needs, too.
_ORTE = frozenset(
    ("OMPI_MCA_ess", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_ess_base_vpid", "OMPI_MCA_pmix",
     *(f"OMPI_MCA_orte_{name}" for name in (
        "app_num", "bound_at_launch", "ess_jobid", "ess_node_rank", "ess_num_procs", "ess_vpid",
        "hnp_uri", "jobfam_session_dir", "launch", "local_daemon_uri", "num_nodes",
        "num_restarts", "parent_uri", "precondition_transports", "top_session_dir",
     )))
)  # fmt: skip
# Where an Open MPI lies that was moved: of users, and what a launcher says of its own, which would
# mislead another one.
_PLACES = frozenset(
    ("OPAL_PREFIX", "PMIX_PREFIX", "PMIX_INSTALL_PREFIX", "PRTE_PREFIX", "PRTE_INSTALL_PREFIX")
)
_SETTINGS = ("PRTE_MCA_", "PMIX_MCA_", *_PLACES)  # of users, though they begin so, too
# Decided by macprun; an outer job's must not be joined.
_JOB = frozenset(
    ("ACP_RENDEZVOUS", "ACP_SECRET", "ACP_SECRET_FILE", "ACP_GROUP", "ACP_GROUP_SIZE",
     "ACP_GROUP_RANK", "ACP_MPI", "ACP_MULTIRUN", "ACP_PARENT", "ACP_RANK_OF", "ACP_SERVICE")
)  # fmt: skip
# Of a host, or of the session there: these mean nothing on another.
_HOST = frozenset(
    ("HOST", "HOSTNAME", "SLURMD_NODENAME", "HOSTTYPE", "MACHTYPE", "OSTYPE", "USER", "LOGNAME",
     "HOME", "SHELL", "ACP_LIFELINE", "SHLVL", "MAIL", "TERM", "DISPLAY", "XAUTHORITY", "PWD",
     "OLDPWD", "_")
)  # fmt: skip
_SESSION = ("SSH_", "XDG_", "DBUS_")


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the user's variables: no launcher's, none of a job that macprun itself is part of.

    Nor its settings of an MPI for this host.
    """
    found = (names for signs, names in _DOUBTFUL.items() if any(sign in environ for sign in signs))
    launchers = tuple(itertools.chain(_LAUNCHER, *found))
    left_out = _JOB | _ORTE | _PLACES if _OF_OPEN_MPI in environ else _JOB
    return {
        name: value
        for name, value in without_hints(environ).items()
        if name not in left_out and (name.startswith(_SETTINGS) or not name.startswith(launchers))
    }


def places(launcher: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a rank's variables say of where Open MPI lies; {} if `launcher` is another's.

    The user's word, or that of the launcher of the rank, which is about itself. None: a process
    that needs no launcher.
    """
    prefix = environ.get("OPAL_PREFIX")
    if prefix is None or _OF_OPEN_MPI not in environ:
        return {}
    if launcher is not None:
        folder = os.path.dirname(os.path.realpath(launcher))
        own = map(os.path.realpath, (prefix, os.path.dirname(sys.executable)))
        if not any(os.path.commonpath((folder, place)) == place for place in own):
            return {}
    return {name: environ[name] for name in _PLACES if name in environ}


def portable(environ: Mapping[str, str], chosen: Container[str]) -> dict[str, str]:
    """Return the variables that are worth taking to another host, and those `chosen` for it.

    Functions of a shell are in its environment, too, under names that cannot be exported.
    """
    return {
        name: value
        for name, value in environ.items()
        if name in chosen or not (name in _HOST or name.startswith(_SESSION))
        if name.isascii() and name.isidentifier()
    }
