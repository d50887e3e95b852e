"""The command lines that start groups with MPI, and how launchers are told apart."""

import os
import subprocess

import pytest
from launching import MEETING, only

from acp_mpi.errors import Error
from acp_mpi.launch.macprun import launchers
from acp_mpi.launch.macprun.launchers import Kind


def test_a_launcher_is_known_by_its_neighbours_or_its_name(programs):
    folder = programs("mpiexec", "hydra_pmi_proxy", "srun", "mpiexec.openmpi")
    env = {"PATH": str(folder)}
    assert launchers.kind_of("mpiexec", env) is Kind.HYDRA
    assert launchers.kind_of("srun", env) is Kind.SRUN
    assert launchers.kind_of(str(folder / "mpiexec.openmpi"), env) is Kind.PRRTE
    with pytest.raises(Error, match="no launcher 'mpirun'"):
        launchers.kind_of("mpirun", env)


def test_a_launcher_without_neighbours_is_asked(programs):
    folder = programs("mpiexec", text="#!/bin/sh\necho 'mpiexec (Open MPI) 5.0'\n")
    assert launchers.kind_of("mpiexec", {"PATH": str(folder)}) is Kind.PRRTE


def test_open_mpi_4_is_known_by_its_target_its_neighbour_or_its_answer(programs):
    folder = programs("orterun", "prterun", text="#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    (folder / "mpirun.openmpi").symlink_to("orterun")  # as Debian has it
    env = {"PATH": str(folder)}
    assert launchers.kind_of("mpirun.openmpi", env) is Kind.ORTE
    programs("mpirun", text="#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    assert launchers.kind_of("mpirun", env) is Kind.ORTE  # both are beside it: it is asked
    (folder / "prterun").unlink()
    programs("mpirun")
    assert launchers.kind_of("mpirun", env) is Kind.ORTE


def test_open_mpi_4_is_told_in_its_own_words(programs):
    folder = programs("mpirun", "orterun")
    start = only(folder, hosts=("a:2", "b:2"))
    command = " ".join(start.command[1:])
    words = "--tag-output --host a:2,b:2 --map-by slot -x ACP_GROUP "
    assert command.startswith(words)
    assert start.marks is launchers.MARKS[Kind.ORTE]
    shared = only(folder, hosts=("elsewhere",))
    assert shared.env["OMPI_MCA_hwloc_base_binding_policy"] == "none"


def test_hydra_gets_hosts_with_slots(programs):
    folder = programs("mpiexec", "hydra_pmi_proxy")
    start = only(folder, hosts=("a:2", "b:2"), launcher=("mpiexec", "-ppn", "2"))
    assert start.command == (
        "mpiexec", "-prepend-pattern", "\x1eacp.%r\x1f", "-hosts", "a:2,b:2", "-ppn", "2",
        "-n", "4", "prog", "arg",
    )  # fmt: skip


def test_prrte_gets_hosts_and_the_names_of_variables(programs):
    folder = programs("mpirun", "prterun")
    start = only(folder, hosts=("a:2", "b:2"), env={"DATA": "/d"})
    command = " ".join(start.command)
    assert command.startswith(
        f"{folder}/mpirun --output tag --host a:2,b:2 --map-by slot -x ACP_GROUP "
    )
    assert " -x ACP_SECRET_FILE " in command
    assert MEETING.secret.hex() not in f"{command}{start.env}"
    assert " -x DATA " in command
    assert " -x PATH " in command
    assert command.endswith(" -n 4 prog arg")
    assert MEETING.secret.hex() not in command


def test_groups_of_open_mpi_that_share_a_host_are_not_bound(programs):
    folder = programs("mpirun", "prterun")
    name = "PRTE_MCA_hwloc_default_binding_policy"
    assert name not in only(folder, hosts=("a:4",)).env
    assert only(folder, hosts=("elsewhere",)).env[name] == "none"
    assert only(folder, {name: "numa"}, hosts=("elsewhere",)).env[name] == "numa"


def test_groups_of_intel_mpi_that_share_a_host_are_not_bound(programs):
    folder = programs("mpiexec", "hydra_pmi_proxy")
    assert "I_MPI_PIN" not in only(folder, hosts=("a:4",)).env
    assert only(folder, hosts=("elsewhere",)).env["I_MPI_PIN"] == "off"
    assert only(folder, {"I_MPI_PIN": "1"}, hosts=("elsewhere",)).env["I_MPI_PIN"] == "1"


def test_srun_gets_a_step_of_its_own(programs):
    folder = programs("srun")
    start = only(folder, hosts=("a:2", "b:2"))
    assert " ".join(start.command[1:]) == (
        "--overlap --exact --export=ALL --label --nodes=2 --ntasks-per-node=2 --nodelist=a,b "
        "-n 4 prog arg"
    )
    start = only(folder, hosts=("a:3", "b:1"))
    assert "--distribution=arbitrary --nodelist=a,a,a,b" in " ".join(start.command)


def test_processes_of_a_batch_script_without_an_environment_have_that_of_their_group(programs):
    """SLURM_EXPORT_ENV is the default of --export, and NONE after `sbatch --export=NONE`."""
    text = """#!/bin/sh
        export=$SLURM_EXPORT_ENV
        for word; do case $word in --export=*) export=${word#*=}; esac; done
        [ $export = NONE ] || echo $ACP_GROUP
    """
    start = only(programs("srun", text=text), {"SLURM_EXPORT_ENV": "NONE"})
    assert subprocess.check_output(start.command, env=start.env, text=True) == "w\n"


def test_slurm_lets_other_launchers_share_nodes(programs):
    start = only(programs("mpiexec", "hydra_pmi_proxy"), {"SLURM_JOB_ID": "1"})
    assert start.env["SLURM_OVERLAP"] == "1"


@pytest.mark.parametrize(
    ("neighbour", "cores", "present", "given", "yields"),
    [
        ("prterun", 3, 0, {}, "1"),
        ("orterun", 3, 0, {}, "1"),
        ("prterun", 4, 0, {}, None),  # the other group is elsewhere
        ("prterun", 4, 1, {}, "1"),
        ("prterun", 3, 0, {"OMPI_MCA_mpi_yield_when_idle": "0"}, "0"),
        ("hydra_pmi_proxy", 3, 0, {}, "1"),  # whose MPI it starts is not known
    ],
)
def test_open_mpi_yields_where_there_are_more_processes_than_cores(
    programs, monkeypatch, neighbour, cores, present, given, yields
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    start = only(programs("mpiexec", neighbour), given, present=present)
    assert start.env.get("OMPI_MCA_mpi_yield_when_idle") == yields


def test_an_unknown_launcher_gets_only_the_number(programs):
    start = only(programs("aprun"), launcher=("aprun", "-j", "1"))
    assert start.command == ("aprun", "-j", "1", "-n", "4", "prog", "arg")


@pytest.mark.parametrize(
    "word",
    ["--map-by", "-map-by=node", "--bynode", "-npernode", "-N", "--rankfile", "--cpus-per-proc"],
)
def test_the_user_says_which_process_goes_where(programs, word):
    """A second word on it would be a conflict."""
    folder = programs("mpirun", "orterun")
    assert " --map-by slot -x" in " ".join(only(folder, hosts=("a:2", "b:2")).command)
    full = only(folder, {"SLURM_JOB_ID": "1"}, hosts=("a:2", "b:2")).command
    assert "slot:oversubscribe" in full  # of its nodes Open MPI counts the slots itself
    own = only(folder, hosts=("a:2", "b:2"), launcher=("mpirun", word, "1")).command
    assert "slot" not in own


def test_hydra_does_not_let_srun_make_ranks_of_pmix_out_of_its_helpers(programs):
    folder = programs("mpiexec", "hydra_pmi_proxy")
    assert only(folder, {"SLURM_JOB_ID": "1"}).env["SLURM_MPI_TYPE"] == "none"
    assert "SLURM_MPI_TYPE" not in only(folder).env
