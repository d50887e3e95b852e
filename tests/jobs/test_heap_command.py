"""`python -m acp_mpi heap PID`: a running job's memory, seen from outside."""

import collections
import dataclasses
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import launch
import numpy as np
import pytest

import acp_mpi as acp

HEAP = [sys.executable, "-P", "-m", "acp_mpi", "heap"]


def heap(*arguments, columns=100):
    environment = os.environ | {"COLUMNS": str(columns), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [*HEAP, *map(str, arguments)], capture_output=True, text=True, timeout=600, env=environment
    )


def wait_for(file, job):
    """Wait until a job has written it, which says that it goes on."""
    launch.until(file.exists, job)
    return file.read_text()


def fill(folder, resets):
    """Make one container of each kind, tell what there is, and wait until the test has looked."""
    folder = Path(folder)
    with acp.init():
        for _ in range(int(resets)):
            acp.reset((acp.rank() + 1) % acp.procs())
        pids = acp.allgather(os.getpid())  # the ring for it stays in the heap
        if acp.rank() == 0:
            vector = acp.Vector(np.float64, rank=1)
            vector.extend(np.arange(5000.0))
            texts = acp.List(rank=1)
            texts.extend("text" * i for i in range(50))
            deque = acp.Deque(np.int64, rank=0)
            deque.extend(range(7))
            counter = acp.Counter(rank=1)
            counts = acp.Map(key=str, value=object, ranks=[0])
            counts.update({f"key {i}": ["x" * i] for i in range(300)})
            numbers = acp.Set(key=np.int64, ranks=[0])
            numbers.update(np.arange(100))
            bag = acp.MultiSet(key=np.int64, ranks=[0])
            for number in (1, 1, 2):
                bag.insert(number)
            area = acp.Workspace(9000, start_rank=1)
            acp.Vector(np.int8, rank=0).destroy()
            blocks = [acp.malloc(10000, rank=0) for _ in range(10)]
            for block in blocks[::2]:
                acp.free(block)
            told = {
                "statistics": [dataclasses.asdict(acp.heap_statistics(r)) for r in (0, 1)],
                "containers": {
                    type(k).__name__: k.ga
                    for k in (vector, texts, deque, counter, counts, numbers, bag, area)
                },
                "pids": pids,
            }
            unfinished = folder / "unfinished"
            unfinished.write_text(json.dumps(told))
            unfinished.rename(folder / "told")
        launch.until((folder / "seen").exists)
        acp.sync()


@pytest.fixture(params=[0, 1, 2], ids=["in order", "permuted", "back in order"])
def filled(start, tmp_path, request):
    job = start([*launch.mpiexec(2), *launch.program(fill, tmp_path, request.param)])
    told = json.loads(wait_for(tmp_path / "told", job))
    yield job, told
    (tmp_path / "seen").touch()
    assert job.wait() == 0, job.output


def test_figures_and_containers_are_those_of_the_job(filled):
    job, told = filled
    for pid in (*told["pids"], job.pid):  # the launcher will do
        done = heap(pid, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        ranks = json.loads(done.stdout)["ranks"]
        assert [one["rank"] for one in ranks] == [0, 1]
        assert [one["pid"] for one in ranks] == told["pids"]
        assert [one["statistics"] for one in ranks] == told["statistics"]
        assert all(one["whole"] for one in ranks)
        found = [k for one in ranks for k in one["containers"]]
        assert set(told["containers"].items()) <= {(k["kind"], k["ga"]) for k in found}
        elements = collections.Counter()
        for k in found:
            elements[k["kind"]] += k["elements"]  # a workspace has a head, and a part on each rank
        del elements["Counter"]
        assert elements == {
            "Vector": 5000,
            "List": 50,
            "Deque": 7,
            "Map": 300,
            "Set": 100,
            "MultiSet": 3,
            "Workspace": 9000,
        }
        by_kind = {k["kind"]: k for k in found}
        assert by_kind["Vector"]["bytes"] > 40000
        assert by_kind["Map"]["blocks"] > 300
        for one in ranks:
            uses = one["uses"]
            assert sum(uses.values()) == one["edges"][1] - one["edges"][0]
            used = sum(uses[use] for use in uses if use not in ("free", "vacant"))
            assert used == one["statistics"]["used"]
            kept = sum(k["bytes"] for k in one["containers"])
            assert kept + sum(uses.get(use, 0) for use in ("malloc", "messages", "spare")) == used
        assert ranks[0]["uses"]["spare"] > 0
        assert ranks[0]["uses"]["malloc"] == 5 * 10016
        assert "malloc" not in ranks[1]["uses"]


def test_the_terminal_shows_maps_tables_and_a_legend(filled):
    job, told = filled
    done = heap(job.pid, columns=80)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "\x1b" not in done.stdout  # no terminal, no colours
    for kind, ga in told["containers"].items():
        assert any(line.startswith(kind) and f" {ga:#x} " in line for line in lines), done.stdout
    maps = [line for line in lines if len(line) == 79 and set(line) <= set(".#@CDLMBSVWs ")]
    assert len(maps) >= 2
    assert {"V", "W"} <= set("".join(maps))
    assert lines[-1].startswith(". free   # malloc")


def test_the_svg_is_well_formed_and_names_the_containers(filled, tmp_path):
    job, told = filled
    done = heap(job.pid, "--svg", tmp_path / "heap.svg")
    assert (done.returncode, done.stderr) == (0, "")
    root = ElementTree.parse(tmp_path / "heap.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = " ".join(text.text for text in root.iter("{http://www.w3.org/2000/svg}text"))
    for kind, ga in told["containers"].items():
        assert f"{kind} {ga:#x}" in texts
    assert list(tmp_path.glob(".heap.svg*")) == []


def test_a_file_that_cannot_be_written_is_named(filled):
    job, _ = filled
    done = heap(job.pid, "--svg", "/proc/no/such.svg")
    assert done.returncode == 1
    assert "/proc/no/such.svg" in done.stderr


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_full_disk_is_no_traceback(filled, option):
    job, _ = filled
    with open("/dev/full", "w") as full:
        command = [*HEAP, str(job.pid), *option]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=600)
    assert done.returncode == 1
    assert done.stderr == "heap: it cannot be shown: No space left on device\n"


def test_a_closed_output_does_not_keep_the_picture_from_being_written(filled, tmp_path):
    job, _ = filled
    picture = tmp_path / "heap.svg"
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *HEAP, str(job.pid), "--svg", str(picture)]
    done = subprocess.run(closed, stderr=subprocess.PIPE, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert picture.read_text().startswith("<svg")


@pytest.mark.smoke
def test_watch_ends_with_the_job_and_has_a_course(start, tmp_path):
    job = start([*launch.mpiexec(2), *launch.program(fill, tmp_path, 0)])
    wait_for(tmp_path / "told", job)
    picture = tmp_path / "heap.svg"
    watch = start([*HEAP, str(job.pid), "--watch", "0.05", "--svg", str(picture)])
    launch.until(lambda: "committed  |" in watch.output, watch)
    (tmp_path / "seen").touch()
    assert job.wait() == 0, job.output
    assert watch.wait() == 0, watch.output
    assert "heap: the job has ended" in watch.output
    assert "<polyline" in picture.read_text()


def change(folder):
    folder = Path(folder)
    with acp.init():
        texts = acp.List()
        numbers = acp.Map(key=np.int64, value=object)
        (folder / "told").touch()
        step = 0
        while not (folder / "seen").exists():
            step += 1
            texts.push_back("x" * (step % 1000))
            numbers[step % 500] = list(range(step % 99))
            if len(texts) > 300:
                texts.clear()
        assert len(numbers) == min(step, 500)


def test_a_job_that_changes_its_heap_is_not_disturbed(start, tmp_path):
    job = start(launch.program(change, tmp_path), {"ACP_MPI": "0"})
    wait_for(tmp_path / "told", job)
    for _ in range(5):
        done = heap(job.pid, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        (rank,) = json.loads(done.stdout)["ranks"]
        assert {one["kind"] for one in rank["containers"]} == {"List", "Map"}
    (tmp_path / "seen").touch()
    assert job.wait() == 0, job.output


# Errors ---------------------------------------------------------------------------------------


def test_what_is_no_job_is_refused():
    assert "there is no process" in heap(2**22 + 1).stderr
    done = heap(os.getpid())
    assert done.returncode == 1
    assert f"process {os.getpid()} " in done.stderr
    assert "is in no job" in done.stderr


# Imported first: nobody may not be able to read the installation.
AS_NOBODY = """
import os, sys
from acp_mpi.errors import Error
from acp_mpi.tools.heap_survey import JobSurvey
os.setgid(65534)
os.setuid(65534)
try:
    JobSurvey(int(sys.argv[1]))
except Error as error:
    print(error, file=sys.stderr)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_a_job_of_another_user_is_refused(start, tmp_path):
    job = start(launch.program(change, tmp_path), {"ACP_MPI": "0"})
    wait_for(tmp_path / "told", job)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(job.pid)], capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert f"process {job.pid} of user 0" in done.stderr
    assert "run this as that user or as root" in done.stderr
    (tmp_path / "seen").touch()
    assert job.wait() == 0, job.output


@pytest.mark.parametrize(
    "arguments", [[], ["one"], ["0"], ["1", "--watch", "0"], ["1", "--watch", "nan"], ["1", "-x"]]
)
def test_wrong_arguments_are_usage_errors(arguments):
    done = heap(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m acp_mpi heap")


def test_help_says_what_the_options_do():
    done = heap("--help")
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("PID", "--svg", "--json", "--watch"))
