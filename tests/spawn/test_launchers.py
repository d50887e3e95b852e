"""The command lines and the environments that start groups; nothing is started here."""

import json
import os
import select
import signal
import subprocess

import pytest

from acp_mpi.errors import Error
from acp_mpi.launch.macprun import launchers, leavings, nodes
from acp_mpi.launch.macprun.launchers import Kind
from acp_mpi.launch.macprun.meeting import Meeting
from acp_mpi.launch.macprun.plan import Group, Plan

MEETING = Meeting("host:7", bytes(range(32)))


@pytest.fixture
def programs(tmp_path):
    """programs(name, ...) makes files that can be run; returns their folder."""

    def make(*names, text="#!/bin/sh\n"):
        for name in names:
            file = tmp_path / name
            file.write_text(text)
            file.chmod(0o700)
        return tmp_path

    return make


def only(folder, environ=None, present=0, **options):
    """Return what starts a job of one group of four with MPI; its launcher is in `folder`."""
    group = Group("w", 4, ("prog", "arg"), True, **options)
    other = Group("m", 1, ("prog",), hosts=("elsewhere",))
    plan = Plan((group, other))
    env = {"PATH": str(folder), **(environ or {})}
    return launchers.starts(plan, nodes.assign(plan, env), MEETING, env, present=present)[0]


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


def test_an_unknown_launcher_gets_only_the_number(programs):
    start = only(programs("aprun"), launcher=("aprun", "-j", "1"))
    assert start.command == ("aprun", "-j", "1", "-n", "4", "prog", "arg")


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


def test_processes_without_mpi_are_started_one_by_one():
    plan = Plan((Group("m", 2, ("prog",), hosts=("localhost", "other"), directory="/d"),),
                starter_size="64", ssh=("agent", "-q"))  # fmt: skip
    here, there = launchers.starts(
        plan, nodes.assign(plan, {}), MEETING, {"HOME": "/h", "A": "b c"}
    )
    assert (here.command, here.directory, here.script) == (("prog",), "/d", None)
    assert here.env["ACP_GROUP_RANK"] == "0"
    assert here.env["ACP_STARTER_SIZE"] == "64"
    assert (there.command, there.directory) == (("agent", "-q", "other", "sh"), None)
    assert there.script is not None
    assert "export A='b c'\n" in there.script
    assert f"export ACP_SECRET={MEETING.secret.hex()}\n" in there.script
    assert "HOME" not in there.script


def test_srun_starts_those_without_mpi_on_nodes_of_its_allocation(programs):
    """By one process a node; what is asked for by hand, and other hosts, are reached as ever."""
    env = {"PATH": str(programs("srun")), "SLURM_JOB_NODELIST": "n[1-2]", "A": "b c"}
    group = Group("m", 4, ("prog",), hosts=("n1:2", "other", "n2"), env={"C": "d"}, directory="/d")
    plan = Plan((group,))
    given = nodes.assign(plan, env)
    one, other, two = launchers.starts(plan, given, MEETING, env)
    assert (one.command[0], one.host, one.rank, one.ranks) == ("srun", "n1", None, (0, 1))
    assert "--nodelist=n1" in one.command
    assert other.command == ("ssh", "other", "sh")
    assert (two.host, two.ranks) == ("n2", (3,))
    ranks, command, directory, told = json.loads(one.script)
    assert (ranks, command, directory) == ([0, 1], ["prog"], "/d")
    assert (told["ACP_SECRET"], told["C"]) == (MEETING.secret.hex(), "d")
    assert "ACP_SECRET" not in one.env
    assert "A" not in told  # srun takes it along
    by_hand = launchers.starts(plan._replace(ssh=("agent",)), given, MEETING, env)
    assert [start.command[:2] for start in by_hand] == [
        ("agent", "n1"), ("agent", "n1"), ("agent", "other"), ("agent", "n2"),
    ]  # fmt: skip


def test_hydra_does_not_let_srun_make_ranks_of_pmix_out_of_its_helpers(programs):
    folder = programs("mpiexec", "hydra_pmi_proxy")
    assert only(folder, {"SLURM_JOB_ID": "1"}).env["SLURM_MPI_TYPE"] == "none"
    assert "SLURM_MPI_TYPE" not in only(folder).env


def test_another_host_gets_the_folder_and_the_bytes_of_this_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    group = Group("m", 1, ("prog",), hosts=("other",), directory="sub", env={"A": "\udcff"})
    plan = Plan((group,))
    (start,) = launchers.starts(plan, nodes.assign(plan, {}), MEETING, {})
    assert f"cd {tmp_path}/sub || exit 127\n" in start.script
    assert b"export A='\xff'\n" in os.fsencode(start.script)


def on_another_host(command, folder):
    """Return a shell that runs there what it reads, with its input open."""
    group = Group("m", 1, ("sh", "-c", command), hosts=("other",), directory=str(folder))
    plan = Plan((group,))
    (start,) = launchers.starts(plan, nodes.assign(plan, {}), MEETING, os.environ)
    shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    shell.stdin.write(start.script.encode())
    shell.stdin.flush()
    return shell


def test_what_runs_on_another_host_ends_with_its_connection(tmp_path):
    with on_another_host("echo $$; exec sleep 1000", tmp_path) as shell:
        end = os.pidfd_open(int(shell.stdout.readline()))
        shell.stdin.close()
        assert shell.wait(20) == 143

    assert select.select([end], [], [], 20)[0]
    os.close(end)


def test_what_a_program_leaves_on_another_host_ends_with_it(tmp_path):
    """Else a connection whose output it has would never end."""
    with on_another_host("sleep 1000 & echo $!; exit 3", tmp_path) as shell:
        left = int(shell.stdout.readline())
        closed = select.select([shell.stdout], [], [], 20)[0]
        if not closed:
            os.kill(left, signal.SIGKILL)
        assert shell.wait(20) == 3
    assert closed
