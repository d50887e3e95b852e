"""What `macprun` is told to start: on the command line, in TOML, in the form of the C library."""

import shlex

import pytest

from acp_mpi.launch.macprun import colon, jobfile
from acp_mpi.launch.macprun.plan import Group, UsageError

TOML = """
starter_size = 4096
nodefile = "nodes"
ssh = "ssh -q"

[[group]]
name = "master"
command = "python 'my master.py' --fast"
env = { OMP_NUM_THREADS = 2 }

[[group]]
processes = 4
mpi = true
command = ["python", "worker.py"]
launcher = "/opt/mpi/bin/mpiexec --mca btl tcp,self"
hosts = ["a:2", "b:2"]
directory = "/data"
optional = true
"""

POSITIONAL = """
# groups
3   # of these two with MPI

acprun -smemsize 1024 -ssh rsh  # without
mpirun --mca btl tcp,self # options can be specified
# the third
mpirun -machinefile Nodefile.2
1 5
4
./master input#1
./worker 'a b' "#2"   # arguments, too
./worker
"""


def planned(line):
    return colon.plan(colon.parse(shlex.split(line)))


def written(tmp_path, text):
    file = tmp_path / "job"
    file.write_text(text)
    return jobfile.read(str(file))


def test_groups_are_separated_by_colons():
    plan = planned(
        "--starter-size 64k -n 1 --name master python master.py -n 3 : "
        "-n 4 --mpi --hosts a:2,b --env A=1=2 --env B= --wdir /tmp --launcher 'x --y z' "
        "--optional python -u worker.py"
    )
    assert plan.starter_size == "64k"
    assert plan.groups == (
        Group("master", 1, ("python", "master.py", "-n", "3")),
        Group("group1", 4, ("python", "-u", "worker.py"), True, ("a:2", "b"),
              {"A": "1=2", "B": ""}, "/tmp", ("x", "--y", "z"), True),
    )  # fmt: skip


def test_a_toml_file_says_the_same(tmp_path):
    plan = written(tmp_path, TOML)
    assert plan.starter_size == "4096"
    assert plan.nodefile == str(tmp_path / "nodes")
    assert plan.ssh == ("ssh", "-q")
    assert plan.groups == (
        Group("master", 1, ("python", "my master.py", "--fast"), env={"OMP_NUM_THREADS": "2"}),
        Group("group1", 4, ("python", "worker.py"), True, ("a:2", "b:2"), {}, "/data",
              ("/opt/mpi/bin/mpiexec", "--mca", "btl", "tcp,self"), True),
    )  # fmt: skip


def test_the_input_of_the_c_library_is_read(tmp_path):
    plan = written(tmp_path, POSITIONAL)
    assert plan.starter_size == "1024"
    assert plan.ssh == ("rsh",)
    assert plan.groups == (
        Group("group0", 1, ("./master", "input")),
        Group("group1", 5, ("./worker", "a b", "#2"), True,
              launcher=("mpirun", "--mca", "btl", "tcp,self")),
        Group("group2", 4, ("./worker",), True, launcher=("mpirun", "-machinefile", "Nodefile.2")),
    )  # fmt: skip
    assert [group.finds_hosts for group in plan.groups] == [False, False, True]


def test_acprun_names_its_nodes_by_a_file(tmp_path):
    (tmp_path / "nodes").write_text("a\nb\na\n")
    plan = written(tmp_path, f"1\nacprun -nodefile {tmp_path}/nodes\n3\n./a\n")
    assert plan.groups[0].hosts == ("a:2", "b:1")


def test_options_of_the_command_line_go_before_the_file(tmp_path):
    file = tmp_path / "job"
    file.write_text(TOML)
    assert planned(f"-np 5 -nodefile other --ssh rsh {file}").nodefile == "other"
    with pytest.raises(UsageError, match="-np 6: the groups have 5"):
        planned(f"-np 6 {file}")


@pytest.mark.parametrize("text", [TOML, POSITIONAL.strip()])
def test_the_mark_with_which_some_editors_begin_is_no_part_of_a_file(tmp_path, text):
    assert written(tmp_path, f"\ufeff{text}") == written(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("group = 1", r"write a table \[\[group\]\]"),
        ("[[group]]\nname = 'a'\ncomand = 'x'", r"'comand'; did you mean command\?; known are"),
        ("[[group]]\ncommand = 'x'\nprocesses = 0", "processes: 0: expected a number"),
        ("[[group]]\ncommand = 'x'\nprocesses = 2.7", "processes: 2.7: expected a number"),
        ("[[group]]\ncommand = 'x'\nprocesses = true", "processes: True: expected a number"),
        ("[[group]]\ncommand = 'x'\nenv = {'A=B' = '1'}", "no variable of env can be called 'A=B'"),
        ("[[group]]\ncommand = 'x'\nenv = {A = true}", "group 0: env: A = True: expected a text"),
        ("[[group]]\ncommand = 'x'\nenv = 'A=1'", "env = 'A=1': expected a table of names"),
        ("[[group]]\ncommand = \"a b\\u0000\"", "'b.x00' holds a zero"),
        ("starter_size = 'foo'\n[[group]]\ncommand = 'x'", "starter memory: 'foo' is not a size"),
        ("[[group]]\ncommand = 'x'\nmpi = 1", "mpi = 1: expected true or false"),
        ("[[group]]\ncommand = 'x\"'", "No closing quotation"),
        ("[[group]]\ncommand = 'x'\nhosts = 'a'", 'expected a list such as'),
        ("[[group]]\nname = '../a'\ncommand = 'x'", "must not hold '/'"),
        ("[[group]]\nname = ''\ncommand = 'x'", "group name '': expected 1 to 255"),
        ("[[group]]\n", "no command"),
        ("= 1", "line 1"),
        ("2\nacprun\nmpirun\n1\n1\n./a\n", "ends where the command of group 1"),
        ("1\nacprun\n1\n./a\n./b\n", "line 5: './b': the commands of all groups are read"),
        ("1\nacprun -x\n1\n./a\n", "unknown option '-x'"),
        ("1\nacprun -ssh\n1\n./a\n", "-ssh needs a value"),
        ("1\nacprun\nmany\n./a\n", "line 3: 'many'"),
        ("2\nmpirun\nmpirun\n1 2 3\n./a\n./b\n", "3 numbers of processes for 2 groups"),
        ("print('a')", "line 1.*on the command line begins with -n"),
        ("starter_size = " + 5000 * "9", "Exceeds the limit"),
        ("[[group]]\ncommand = 'x'\nenv = {A = 0x" + 5000 * "f" + "}", "Exceeds the limit"),
        ("a = " + 5000 * "[", "too deep"),
        ((1 << 24) * "#" + "#", "longer than 16 MiB"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        written(tmp_path, text)
