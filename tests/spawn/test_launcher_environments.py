"""The environments that groups start with: what their MPI is told, and what is kept from them."""

import os

import pytest
from launching import MEETING, only

from acp_mpi.launch.macprun import leavings, nodes

NETWORKS = ("UCX_TLS", "OMPI_MCA_btl")


def _networks(start):
    return [start.env.get(name) for name in NETWORKS]


def test_mpi_does_not_listen_where_no_rank_can_be_elsewhere(programs):
    off, as_it_was = ["^tcp"] * 2, [None] * 2
    folder = programs("mpiexec", "hydra_pmi_proxy")
    assert _networks(only(folder)) == off
    assert _networks(only(folder, hosts=(f"{nodes.HERE}:4",))) == off
    assert _networks(only(folder, hosts=("localhost:2", "elsewhere:2"))) == as_it_was
    assert _networks(only(folder, launcher=("mpiexec", "-f", "hosts"))) == as_it_was
    assert _networks(only(folder, launcher=("mpiexec", "-configfile", "all"))) == as_it_was
    # Hydra finds hosts by itself; one that is told hosts does not look for them
    here = (f"{nodes.HERE}:4",)
    for found in ("HYDRA_HOST_FILE", "PE_HOSTFILE", "LSB_HOSTS"):
        assert _networks(only(folder, {found: "/dev/null"}, hosts=here)) == as_it_was
    assert _networks(only(folder, {"SLURM_JOB_NODELIST": "a,b"}, hosts=here)) == as_it_was
    assert _networks(only(folder, {"SLURM_JOB_NODELIST": "localhost"}, hosts=here)) == off
    programs("srun")
    assert _networks(only(folder, launcher=("srun",))) == as_it_was


def test_a_launcher_of_open_mpi_is_told_its_host_and_finds_no_other(programs):
    folder = programs("mpiexec", "orterun")
    here = (f"{nodes.HERE}:4",)
    assert _networks(only(folder, {"SLURM_JOB_NODELIST": "a,b"}, hosts=here)) == ["^tcp"] * 2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"OMPI_MCA_btl": "^ofi"}, ["^tcp", "^ofi,tcp"]),
        ({"OMPI_MCA_btl": "^tcp,ofi", "UCX_TLS": "^sm"}, ["^sm,tcp", "^tcp,ofi"]),
        ({"OMPI_MCA_btl": "tcp,self"}, ["^tcp", "tcp,self"]),
        ({"UCX_TLS": "all"}, ["all", "^tcp"]),
        ({"UCX_TLS": ""}, ["", "^tcp"]),
    ],
)
def test_lists_of_what_to_leave_out_are_one_and_any_other_is_the_user_s(programs, given, told):
    folder = programs("mpiexec", "hydra_pmi_proxy")
    start = only(folder, given)
    assert _networks(start) == told
    handed_on = only(folder, start.env, hosts=("elsewhere:4",))
    assert [handed_on.env.get(name) for name in NETWORKS] == [given.get(n) for n in NETWORKS]


def test_files_of_parameters_are_settings_of_the_user(programs, tmp_path):
    folder = programs("mpiexec", "orterun")
    home = tmp_path / "home"
    (home / ".openmpi").mkdir(parents=True)
    file = home / ".openmpi" / "mca-params.conf"
    env = {"HOME": str(home)}
    for line, told in (
        ("btl = ^uct, ofi # slow", "^uct,ofi,tcp"), ("btl=tcp,self", None), ("# btl = self", "^tcp")
    ):  # fmt: skip
        file.write_text(f"# mine\n{line}\nmpi_yield_when_idle = 0\n")
        assert only(folder, env).env.get("OMPI_MCA_btl") == told
    start = only(folder, env, present=100)
    assert "OMPI_MCA_mpi_yield_when_idle" not in start.env
    file.write_text("hwloc_base_binding_policy = core\n")
    shared = only(folder, env, hosts=("elsewhere",))
    assert "OMPI_MCA_hwloc_base_binding_policy" not in shared.env
    file.unlink()
    (home / "ucx.conf").write_text("UCX_TLS=rc,sm\n")
    assert _networks(only(folder, env)) == [None, "^tcp"]
    etc = tmp_path / "opt" / "etc"  # of an Open MPI that was moved
    etc.mkdir(parents=True)
    (etc / "openmpi-mca-params.conf").write_text("btl = self,sm\n")
    moved = {"HOME": "/nowhere", "OPAL_PREFIX": str(etc.parent)}
    assert _networks(only(folder, moved)) == ["^tcp", None]
    listed = moved | {"OMPI_MCA_mca_base_param_files": "/nowhere"}
    assert _networks(only(folder, listed)) == ["^tcp"] * 2


def _hooks(folder, given, *hosts):
    env = only(folder, given, hosts=hosts).env
    return env.get("UCX_MEM_MMAP_HOOK_MODE")


def test_a_group_of_one_host_has_no_memory_hooks_for_networks(programs):
    folder = programs("mpiexec", "hydra_pmi_proxy")
    assert _hooks(folder, {}) == "none"
    assert _hooks(folder, {}, "localhost:2", "elsewhere:2") is None
    assert _hooks(folder, {"UCX_MEM_MMAP_HOOK_MODE": "bistro"}) == "bistro"
    unknown = only(folder, launcher=("mpiexec", "-f", "hosts"))
    assert "UCX_MEM_MMAP_HOOK_MODE" not in unknown.env


def test_a_group_does_not_hand_on_what_its_mpi_was_told_of_this_host(programs):
    folder = programs("mpiexec", "hydra_pmi_proxy")
    given = dict(only(folder).env)
    assert _hooks(folder, given, "elsewhere:4") is None
    changed = given | {"UCX_MEM_MMAP_HOOK_MODE": "bistro"}  # by the program
    assert _hooks(folder, changed, "elsewhere:4") == "bistro"
    assert "ACP_HINTS" not in only(folder, given, hosts=("elsewhere:4",)).env


def test_the_environment_has_the_job_and_nothing_of_a_launcher(programs):
    given = {
        "PMI_RANK": "1", "PMI_FD": "9", "PMIX_RANK": "0", "PRTE_LAUNCHED": "1", "HYDI_X": "7",
        "OMPI_COMM_WORLD_RANK": "0", "OMPI_MCA_num_procs": "1", "SLURM_PROCID": "0",
        "SLURM_STEP_ID": "3", "SLURM_STEPID": "3", "ACP_GROUP_RANK": "5", "ACP_SECRET_FILE": "f",
        "ACP_PARENT": "0",
    }  # fmt: skip
    kept = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_MCA_btl": "tcp", "PRTE_MCA_a": "b", "PMIX_MCA_c": "d",
        "UCX_TLS": "tcp", "MPIR_CVAR_X": "y", "SLURM_JOB_NODELIST": "a", "ACP_PATH": "link",
        "HOME": "/root",
    }  # fmt: skip
    folder = programs("mpiexec", "hydra_pmi_proxy")
    env = only(folder, given | kept, hosts=("localhost",), env={"MINE": "1"}).env
    assert not set(given) & set(env)
    assert kept.items() <= env.items()
    job = {
        "ACP_RENDEZVOUS": "host:7", "ACP_SECRET": MEETING.secret.hex(), "ACP_GROUP": "w",
        "ACP_GROUP_SIZE": "4", "ACP_MPI": "1", "MINE": "1",
    }  # fmt: skip
    assert job.items() <= env.items()


def test_what_users_and_slurm_set_is_of_the_step_that_there_is(programs):
    folder = programs("mpiexec", "hydra_pmi_proxy")
    given = dict.fromkeys(("SLURM_MPI_TYPE", "SLURM_CPU_BIND_TYPE", "SLURM_DISTRIBUTION"), "1")
    others = {"PMI_RANK": "0", "SLURM_JOB_ID": "1"}
    assert given.items() <= only(folder, given | others).env.items()
    assert not set(given) & set(only(folder, given | {"SLURM_STEP_ID": "1"}).env)


def test_what_open_mpi_4_says_of_a_rank_is_not_taken_for_a_setting_of_the_user(programs):
    """Of the same names but for their ends."""
    folder = programs("mpiexec", "orterun")
    of_the_rank = dict.fromkeys(
        ("OMPI_MCA_ess", "OMPI_MCA_ess_base_vpid", "OMPI_MCA_pmix", "OMPI_MCA_orte_hnp_uri"), "1"
    )
    of_the_user = dict.fromkeys(
        ("OMPI_MCA_ess_base_verbose", "OMPI_MCA_pmix_base_verbose", "OMPI_MCA_orte_tmpdir_base"),
        "1",
    )
    env = only(folder, of_the_rank | of_the_user | {"OMPI_COMM_WORLD_SIZE": "1"}).env
    assert of_the_user.items() <= env.items()
    assert not set(of_the_rank) & set(env)
    assert only(folder, {"OMPI_MCA_pmix": "mine"}).env["OMPI_MCA_pmix"] == "mine"


def test_each_launcher_of_open_mpi_4_has_a_session_folder_of_its_own(programs, tmp_path):
    """One that all share is removed by those that start, and missed by those that made it."""
    folder, name = programs("mpiexec", "orterun"), "OMPI_MCA_orte_tmpdir_base"
    here = {"TMPDIR": str(tmp_path)}
    first, second = (only(folder, here).env for _ in range(2))
    assert first[name] != second[name]
    assert os.path.dirname(first[name]) == str(tmp_path)
    assert only(folder, here | {name: "/mine"}).env[name] == "/mine"
    assert name not in only(folder, here, hosts=("elsewhere",)).env
    assert name not in only(programs("prterun"), here).env  # it may be that of Open MPI 5 now
    os.mkdir(first[name])
    leavings.remove_session_folder(first)
    leavings.remove_session_folder({**first, name: str(tmp_path)})  # not what was told
    leavings.remove_session_folder(second)  # never made
    assert not list(tmp_path.glob("ompi.*"))


PLACES = ("OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX")


def test_a_launcher_is_told_where_its_own_open_mpi_lies_and_not_another(programs, tmp_path):
    programs("mpirun", "orterun")
    rank = {"OMPI_COMM_WORLD_SIZE": "1"}
    for prefix, known in ((tmp_path.parent, True), (tmp_path / "elsewhere", False)):
        places = dict.fromkeys(PLACES, str(prefix))
        assert (places.items() <= only(tmp_path, places | rank).env.items()) == known
        assert places.items() <= only(tmp_path, places).env.items()  # the user's own word
        chosen = only(tmp_path, places | rank, env={"OPAL_PREFIX": "/mine"}).env
        assert chosen["OPAL_PREFIX"] == "/mine"
