"""What users have set for their MPI holds in what a rank spawns, with a launcher or without."""

import os
import sys
from pathlib import Path

import launch
import pytest

HOOK = {"ACP_SPAWN": "1"}
# Where they are known, launchers replace these for their processes, or take them away: a child that
# none starts needs them as they were. All are harmless where they mean nothing.
SETTINGS = {
    "OPAL_PREFIX": lambda: os.environ.get("OPAL_PREFIX", sys.prefix),
    "PMIX_MCA_ptl_base_verbose": lambda: "0",
    "PRTE_MCA_rmaps_default_mapping_policy": lambda: ":oversubscribe",
    "OMPI_MCA_orte_tmpdir_base": lambda: os.getcwd(),
    "OMPI_MCA_orte_base_help_aggregate": lambda: "0",
    "OMPI_MCA_ess_base_verbose": lambda: "0",
    "OMPI_MCA_pmix_base_verbose": lambda: "0",
    "OMPI_MCA_rmaps_base_oversubscribe": lambda: "1",
    "OMPI_MCA_hwloc_base_binding_policy": lambda: "none",
    "HYDRA_LAUNCHER": lambda: "fork",
    "I_MPI_HYDRA_BOOTSTRAP": lambda: "fork",
    "MPIR_CVAR_ENABLE_GPU": lambda: "0",
    "SLURM_JOB_ID": lambda: "1",
}


def say_what_is_set(*names):
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    parent.send((MPI.COMM_WORLD.size, [os.environ.get(name) for name in names]), 0)
    parent.Disconnect()


def spawn_with_all_settings():
    from mpi4py import MPI

    values = [value() for value in SETTINGS.values()]
    os.environ.update(zip(SETTINGS, values, strict=True))
    command, *arguments = launch.program(say_what_is_set, *SETTINGS)
    child = MPI.COMM_SELF.Spawn(command, arguments)
    size, found = child.recv(source=0)
    assert size == 1
    assert dict(zip(SETTINGS, found, strict=True)) == dict(zip(SETTINGS, values, strict=True))
    child.Disconnect()


@pytest.mark.parametrize("ranks", [0, 1])
def test_a_single_child_without_launcher_has_what_the_user_has_set(passes, ranks):
    command = launch.program(spawn_with_all_settings)
    passes([*launch.mpiexec(ranks), *command] if ranks else command, HOOK)


POLICIES = (
    {"OMPI_MCA_rmaps_base_oversubscribe": "1"},
    {"OMPI_MCA_rmaps_base_no_oversubscribe": "1"},
    {"OMPI_MCA_rmaps_base_mapping_policy": "node"},
    {"PRTE_MCA_rmaps_default_mapping_policy": "node:oversubscribe"},
    {"HOME": "home"},  # where a file says the first of these
)


def spawn_under_each_policy():
    from mpi4py import MPI

    file = Path("home", ".openmpi", "mca-params.conf")
    file.parent.mkdir(parents=True)
    file.write_text("rmaps_base_oversubscribe = 1\n")
    for name in [name for name in os.environ if "MCA_rmaps" in name]:  # of whoever runs this
        del os.environ[name]
    before = dict(os.environ)
    command, *arguments = launch.program(say_what_is_set)
    for policy in POLICIES:
        os.environ.update(policy)
        children = MPI.COMM_SELF.Spawn(command, arguments, 2)
        assert [children.recv(source=child) for child in range(2)] == [(2, [])] * 2, policy
        children.Disconnect()
        os.environ.clear()
        os.environ.update(before)


def test_whether_hosts_may_be_crowded_is_the_user_s_policy(passes):
    """Open MPI 4 refuses two words on it: of variables, of files, and of the command line."""
    passes(launch.program(spawn_under_each_policy), HOOK, 60.0)
