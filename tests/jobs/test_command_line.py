"""What users type: `python -m acp_mpi`, options, variables; and what importing brings in."""

import os
import subprocess
import sys
import warnings

import launch
import pytest
from macprunning import macprun

import acp_mpi as acp
from acp_mpi.__main__ import main
from acp_mpi.job.rendezvous import secret
from acp_mpi.launch.macprun import command
from acp_mpi.spawn.__main__ import _parser

MODULE = [sys.executable, "-P", "-m", "acp_mpi"]


# Running a program ----------------------------------------------------------------------------


def write(tmp_path, text):
    path = tmp_path / "app.py"
    path.write_text(text)
    return str(path)


def test_a_program_runs_with_its_arguments(passes, tmp_path):
    app = write(tmp_path, "import sys, __main__\nprint(__name__, __file__, sys.argv[1:])")
    output = passes([*MODULE, app, "--flag", "x"])
    assert f"__main__ {app} ['--flag', 'x']" in output


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        ("raise RuntimeError('the reason')", "RuntimeError: the reason"),
        ("sys.exit('the reason')", "the reason"),
        ("sys.exit(3)", ""),
    ],
)
def test_an_error_of_one_rank_ends_the_whole_group(fails, tmp_path, end, shown):
    app = write(
        tmp_path,
        "import sys\nimport acp_mpi as acp\nacp.init()\n"
        f"if acp.rank() == 1:\n    {end}\nacp.sync()\n",
    )
    assert shown in fails([*launch.mpiexec(3), *MODULE, app])


@pytest.mark.parametrize("module", ["acp_mpi", "acp_mpi.spawn"])
def test_a_program_imports_what_lies_beside_it(passes, tmp_path, module):
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / "beside.py").write_text("WORD = 'found it'\n")
    app = write(tmp_path / "apart", "import beside\nprint(beside.WORD)\n")
    assert "found it" in passes([sys.executable, "-m", module, app])


@pytest.mark.parametrize("module", ["acp_mpi", "acp_mpi.spawn"])
def test_a_program_that_is_not_there_is_a_wrong_command_line(module):
    done = subprocess.run(
        [sys.executable, "-m", module, "nope.py"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 2
    assert "there is no program 'nope.py' here" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["acp_mpi"], "say what: info, heap PID, selftest, or the program to run"),
        (["acp_mpi", "-x"], "unrecognized arguments: -x"),
        (["acp_mpi", "inof"], "no program 'inof' here; give the path of one; did you mean info?"),
        (["acp_mpi", "."], "'.' is a folder without a __main__.py"),
        (["acp_mpi.spawn", "."], "'.' is a folder without a __main__.py"),
        (["acp_mpi.spawn", "-m", "nope"], "there is no module 'nope'"),
        (["acp_mpi.spawn", "-m", "nope.x"], "there is no module 'nope.x'"),
        (["acp_mpi.spawn", "-m", "json.nope"], "there is no module 'json.nope'"),
    ],
)
def test_what_cannot_be_run_is_said_without_a_traceback(tmp_path, words, said):
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, timeout=600, cwd=tmp_path
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("end", ["sys.exit(0)", "sys.exit()", "pass"])
def test_a_good_end_is_a_good_end(passes, tmp_path, end):
    passes(
        [
            *launch.mpiexec(2),
            *MODULE,
            write(tmp_path, f"import sys\nimport acp_mpi as acp\nacp.init()\n{end}\n"),
        ]
    )


def begin_in_two_threads():
    import threading

    ranks = []

    def begin():
        acp.init()
        ranks.append(acp.rank())
        acp.finalize()

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ranks == [0] * 4


def test_whoever_calls_init_while_another_thread_does_waits_for_the_job(passes):
    passes(launch.program(begin_in_two_threads))


# Options and variables ------------------------------------------------------------------------


def take_options(*arguments):
    sys.argv = ["program", "--acp-starter-size", "4K", "input.txt", "--acp-heap-size=1M", "-v"]
    with acp.init():
        assert sys.argv == ["program", "input.txt", "-v"]
        acp.put(acp.query_starter_ga(0) + 4095, b"x")
        with pytest.raises(acp.AddressError):
            acp.put(acp.query_starter_ga(0) + 4096, b"x")
        with pytest.raises(acp.HeapFullError):
            acp.empty(2 << 20, "u1")


def test_options_are_taken_from_the_command_line(passes):
    passes(launch.program(take_options), {"ACP_MPI": "0"})


def wait_long_for_the_dead():
    """Two ranks by link: at once dead were whoever has no time to answer."""
    with acp.init():
        right = acp.query_starter_ga((acp.rank() + 1) % acp.procs())
        for _ in range(100):
            acp.fetch_add8(right, 1)
        acp.sync()


@pytest.mark.parametrize("timeout", ["inf", "1e12"])
def test_a_timeout_may_be_for_ever(passes, timeout):
    for name in ("ACP_PEER_TIMEOUT", "ACP_JOIN_TIMEOUT"):
        command = [*launch.mpiexec(2), *launch.program(wait_long_for_the_dead)]
        passes(command, {name: timeout} | launch.ROADS["link"])


@pytest.mark.parametrize("timeout", ["inf", "1e12"])
def test_groups_may_wait_for_each_other_for_ever(passes, timeout):
    group = [1, *launch.program(wait_long_for_the_dead)]
    passes(macprun(group, group), {"ACP_JOIN_TIMEOUT": timeout})


def warn():
    with (
        pytest.warns(UserWarning, match=r"ACP_STARTERSIZE .*; did you mean ACP_STARTER_SIZE\?"),
        acp.init(),
    ):
        pass


def test_unknown_variables_are_warned_of(passes):
    passes(launch.program(warn), {"ACP_MPI": "0", "ACP_STARTERSIZE": "1"})


def refuse(name):
    with pytest.raises(acp.Error, match=f"init: {name}=nonsense"):
        acp.init()
    assert not acp.is_initialized()


@pytest.mark.parametrize(
    "name",
    [
        "ACP_PATH",
        "ACP_HEAP_SIZE",
        "ACP_STARTER_SIZE",
        "ACP_WINDOW_SIZE",
        "ACP_MPI",
        "ACP_PEER_TIMEOUT",
        "ACP_GROUP_SIZE",
    ],
)
def test_values_that_mean_nothing_are_refused(passes, name):
    passes(launch.program(refuse, name), {name: "nonsense"})


def refuse_half_an_environment(path):
    """It would be a job of its own, and end well without the others."""
    secrets = {"ACP_SECRET_FILE": path, "ACP_SECRET": "ab" * 32}
    for half in (
        {"ACP_GROUP": "ice"},
        *({name: value} for name, value in secrets.items()),
        secrets,
    ):
        os.environ.update(half)
        with pytest.raises(acp.Error) as caught:
            acp.init()
        text = str(caught.value)
        assert text.startswith(f"init: {next(iter(half))} is set")
        assert "ACP_RENDEZVOUS" in text
        assert "ab" * 32 not in text
        assert not acp.is_initialized()
        for name in half:
            del os.environ[name]
    acp.init()
    acp.finalize()


def test_half_an_environment_is_refused(passes, tmp_path):
    secret.create(tmp_path / "secret")
    program = launch.program(refuse_half_an_environment, tmp_path / "secret")
    passes(program, {"ACP_MPI": "0"})


def be_a_job():
    with acp.init():
        assert acp.procs() == 1


def test_ranks_of_another_mpi_than_that_of_the_launcher_are_warned(passes):
    both = filter(None, (sys.executable, launch.other_python()))
    pythons = {launch.mpi_name(python): python for python in both}
    if len(pythons) < 2:
        pytest.skip("needs both MPIs")
    launcher = launch.mpiexec(2, python=pythons["mpich"])  # that of Open MPI ends MPICH's ranks
    output = passes([*launcher, *launch.program(be_a_job, python=pythons["openmpi"])])
    assert output.count("the mpiexec of MPICH has started 2 processes") == 1


# Versions, and what is nearly a command ------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (main, []),
        (main, ["info"]),
        (main, ["heap"]),
        (_parser().parse_args, []),
        (command.run, []),
        *((command.run, [one]) for one in ("check", "serve", "secret", "status", "kill")),
    ],
)
def test_every_command_knows_its_version(capsys, run, words):
    with pytest.raises(SystemExit) as caught:
        run([*words, "--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"acp_mpi {acp.__version__}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stauts"], "no command and no job file 'stauts'; did you mean `macprun status`?"),
        (["kil", "12"], "no command and no job file 'kil'; did you mean `macprun kill`?"),
        (["-n", "1", "--mip", "true"], "--mip; did you mean --mpi?"),
        (["--ouput-dir=x", "-n", "1", "true"], "--ouput-dir=x; did you mean --output-dir?"),
        (["job"], "'procesess'; did you mean processes?; known are "),
        (["nothing", "like", "it"], "'nothing' and 'like': expected one job file"),
    ],
)
def test_what_is_nearly_a_command_is_answered_by_what_it_may_mean(
    capsys, monkeypatch, tmp_path, words, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job").write_text('[[group]]\nprocesess = 2\ncommand = "true"\n')
    assert command.run(words) == 2
    assert said in capsys.readouterr().err


# Before init, and what importing brings in ----------------------------------------------------


def call_everything_too_early():
    assert not acp.is_initialized()
    acp.finalize()
    calls = {
        "rank": acp.rank,
        "procs": acp.procs,
        "sync": acp.sync,
        "complete": acp.complete,
        "ranks": acp.ranks,
        "groups": acp.groups,
        "group": acp.group,
        "refresh": acp.refresh,
        "query_starter_ga": lambda: acp.query_starter_ga(0),
        "copy": lambda: acp.copy(1, 2, 3),
        "put": lambda: acp.put(1, b""),
        "empty": lambda: acp.empty(3),
        "fetch_add8": lambda: acp.fetch_add8(8, 1),
        "register_memory": lambda: acp.register_memory(bytearray(8)),
        "query_rank": lambda: acp.query_rank(1),
        "bcast": lambda: acp.bcast(1),
        "lookup": lambda: acp.lookup("x"),
        "barrier": lambda: acp.barrier([0]),
        "wait": lambda: acp.wait(2),
        "reset": lambda: acp.reset(0),
        "remote": lambda: acp.remote(1, 3),
    }
    for name, call in calls.items():
        with pytest.raises(acp.NotInitializedError, match=rf"^{name}: call acp\.init\(\)"):
            call()


def test_every_call_before_init_says_what_to_do(passes):
    passes(launch.program(call_everything_too_early), {"ACP_MPI": "0"})


def import_little():
    warnings.simplefilter("error")
    with acp.init():
        ga = acp.query_starter_ga(0)
        acp.put(ga, bytearray(b"12345678"))
        assert acp.get(ga, bytearray(8)) == b"12345678"
        assert acp.fetch_add8(ga + 8, 5) == 0
        with acp.register_memory(bytearray(100)) as key:
            acp.complete(acp.copy(acp.query_ga(key), ga, 8))
        acp.publish("name", 1)
        assert acp.lookup("name") == acp.bcast(1) == acp.allgather(1)[0]
        acp.sync()
    heavy = {"numpy", "mpi4py"} & set(sys.modules)
    assert not heavy, f"{heavy} imported"


def test_a_program_with_bytearrays_imports_neither_numpy_nor_mpi4py(passes, tmp_path):
    source = "import sys\nimport acp_mpi as acp\nimport warnings\n"
    app = write(tmp_path, source + inspect_source(import_little) + "\nimport_little()\n")
    passes([sys.executable, app], {"ACP_MPI": "0"})


def inspect_source(function):
    import inspect

    return inspect.getsource(function)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("ACP_GROUP_SIZE", "x", "ACP_GROUP_SIZE=x: 'x' is not a number from 0"),
        ("ACP_GROUP_SIZE", "0", "a group has at least one process"),
        ("ACP_PEER_TIMEOUT", "soon", "'soon' is not a positive number of seconds"),
    ],
)
def test_a_setting_that_is_none_is_named(fails, variable, value, said):
    command = [sys.executable, "-c", "import acp_mpi as acp; acp.init()"]
    assert said in fails(command, {variable: value})


def test_an_unknown_option_is_answered_by_those_that_are_known(fails):
    command = [sys.executable, "-c", "import acp_mpi as acp; acp.init()", "--acp-hepa-size", "1"]
    assert "did you mean --acp-heap-size?; known are --acp-delegate-memory, " in fails(command)
    command[-2:] = ["--acp-heap-size", "2X"]
    assert "init: --acp-heap-size 2X: '2X' is not a size" in fails(command)
