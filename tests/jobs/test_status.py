"""`macprun status` and `kill`: a job shown and ended from outside."""

import contextlib
import os
import platform
import re
import signal

import launch
import numpy as np
import pytest
from macprunning import MACPRUN, alone, is_said, macprun, mpi, nothing_is_left

import acp_mpi as acp
from acp_mpi.job import membership
from acp_mpi.launch.macprun import command, control, ranks
from acp_mpi.launch.macprun.inquiry import Doing

WAITS = {
    "receives": ("is in recv from rank 0", lambda: acp.recv(source=0)),
    "receives from any": ("is in recv", acp.recv),
    "probes": ("is in probe from rank 0", lambda: acp.probe(source=0)),
    "reduces": ("is in a collective and waits for rank [01]", lambda: acp.allreduce(np.ones(1))),
    "reduces later": ("is in a collective.*", lambda: acp.iallreduce(np.ones(1)).wait()),
    "meets": ("is in barrier", lambda: acp.barrier([0, acp.rank()])),
}


def wait_for_rank_0(how):
    """Rank 0 waits for a word that nobody writes, the others for it, each in its way."""
    acp.init()
    print("joined", flush=True)
    if acp.rank() == 0:
        with contextlib.suppress(TimeoutError):
            acp.wait_until(acp.query_starter_ga(0), "==", 1, timeout=600)
    WAITS[how][1]()


def shows(passes, job, states):
    """Wait until the state of each rank is shown; return the text."""
    while True:
        text = passes([str(MACPRUN), "status", str(job.pid)])
        lines = [re.search(rf"^ *{r} +(\S+) +\S+ +\d+ +(.*)$", text, re.M) for r in range(3)]
        if all(lines) and all(map(re.fullmatch, states, [line[2] for line in lines])):
            assert [line[1] for line in lines] == ["master.0", "worker.0", "worker.1"], text
            return text
        assert job.running, f"{job.output}\n{text}"


@pytest.mark.parametrize(
    ("pids", "said"),
    [([], "no macprun of this user runs"), ([11, 12], "give one of 11, 12")],
)
def test_kill_without_a_number_needs_one_job(monkeypatch, capsys, pids, said):
    """Of jobs that are made up: others run beside this test."""
    monkeypatch.setattr(control, "jobs", lambda: pids)
    assert command.run(["kill"]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("how", WAITS)
def test_it_shows_what_each_rank_waits_for(start, passes, how):
    groups = alone(1, "master", wait_for_rank_0, how), mpi(2, "worker", wait_for_rank_0, how)
    job = start(macprun(*groups))
    is_said(job, "joined", 3)
    text = shows(passes, job, ["is in wait_until", *[WAITS[how][0]] * 2])
    assert f"macprun {job.pid}: " in text
    assert f"macprun {job.pid}: " in passes([str(MACPRUN), "status"])
    passes([str(MACPRUN), "kill", str(job.pid)])
    assert job.wait() == 143, job.output
    nothing_is_left(job, job.pid)


def come_late(go):
    """Join once that file is there."""
    print("ready", flush=True)
    launch.until(lambda: os.path.exists(go))
    acp.init()
    acp.finalize()


@pytest.mark.smoke
def test_it_shows_who_has_come_and_for_whom_they_wait(start, passes, tmp_path):
    late = str(tmp_path / "go")
    groups = alone(1, "early", come_late, __file__), mpi(2, "late", come_late, late)
    job = start(macprun(*groups, alone(3, "last", come_late, late)))
    is_said(job, "ready", 6)
    wanted = [("early", "waits for late.0-1, last.0-2")]
    wanted += [(name, "has not come") for name in ("late", "late", "last", "last", "last")]
    seen = []
    while seen != wanted:
        assert job.running, f"{job.output}\n{seen}"
        text = passes([str(MACPRUN), "status", str(job.pid)])
        seen = re.findall(r"^ *\d +(\w+)\.\d +\S+ +- (.*)$", text, re.M)
    assert "early: 1 rank, without MPI, 1 came\n" in text
    (tmp_path / "go").touch()
    assert job.wait(60) == 0, job.output


def node(name):
    return ["--env", f"ACP_NODE={name}"]


def test_ranks_whose_memory_cannot_be_seen_are_asked(start, passes):
    how = "receives"
    job = start(macprun(
        alone(1, "master", wait_for_rank_0, how, options=node("a")),
        mpi(2, "worker", wait_for_rank_0, how, options=node("b")),
    ))  # fmt: skip
    is_said(job, "joined", 3)
    shows(passes, job, ["is in wait_until", *[WAITS[how][0]] * 2])
    assert job.running, job.output


def reset_and_wait():
    """The ranks change places; the first is then killed."""
    acp.init()
    was = acp.rank()
    acp.reset((was + 1) % 3)
    print(f"joined {os.getpid() if was == 0 else ''}", flush=True)
    signal.pause()


@pytest.mark.parametrize("nodes", [1, 3])
def test_it_shows_who_has_left_and_ranks_as_they_are_after_a_reset(start, passes, nodes):
    groups = [alone(1, f"g{i}", reset_and_wait, options=node(i % nodes)) for i in range(3)]
    job = start(macprun(*groups))
    is_said(job, "joined", 3)
    os.kill(int(re.search(r"joined (\d+)", job.output)[1]), signal.SIGKILL)
    wanted = {"g0.0": "? has left", "g1.0": "2 computes", "g2.0": "0 computes"}
    seen = {}
    while seen != wanted:
        assert job.running, f"{job.output}\n{seen}"
        text = passes([str(MACPRUN), "status", str(job.pid)])
        lines = re.findall(r"^ *([?\d]) +(\S+) +\S+ +\d+ +(.*)$", text, re.M)
        seen = {label: f"{rank} {state}" for rank, label, state in lines}
    passes([str(MACPRUN), "kill", str(job.pid)])
    nothing_is_left(job, job.pid)


def receive_from_rank_0():
    acp.init()
    acp.recv(source=0)


def start_more_and_pause():
    """Rank 0 starts a group beside it and one elsewhere."""
    acp.init()
    if acp.rank() == 0:
        program = launch.program(receive_from_rank_0)
        acp.spawn_group(program, 2, name="near", mpi=False)
        acp.spawn_group(program, 1, name="far", mpi=False, env={"ACP_NODE": "elsewhere"})
        print("joined", flush=True)
    signal.pause()  # a wait would end with the ranks that are killed


def shown_later(passes, job):
    """Return what is shown of the ranks of groups that were started later, and the whole text."""
    text = passes([str(MACPRUN), "status", str(job.pid)])
    assert job.running, f"{job.output}\n{text}"
    lines = re.findall(r"^ *(\d) +((?:near|far)\.\d) +(\S+) +(\d+) +(.*)$", text, re.M)
    assert {place for _, _, place, _, _ in lines} <= {platform.node()}
    return {(int(rank), name): (int(pid), state) for rank, name, _, pid, state in lines}, text


@pytest.mark.parametrize("others", ["a", "b"])
def test_it_shows_groups_that_the_job_has_started_itself(start, passes, others):
    job = start(macprun(
        alone(1, "master", start_more_and_pause, options=node("a")),
        mpi(2, "worker", start_more_and_pause, options=node(others)),
    ))  # fmt: skip
    is_said(job, "joined")
    wanted = {(3, "near.0"), (4, "near.1"), (5, "far.0")}
    ranks, text = shown_later(passes, job)
    while {state for _, state in ranks.values()} != {"is in recv from rank 0"}:
        ranks, text = shown_later(passes, job)
    assert ranks.keys() == wanted, text
    assert "  near: 2 ranks, without MPI, started later\n" in text
    for rank in 3, 4:
        os.kill(next(pid for (slot, _), (pid, _) in ranks.items() if slot == rank), signal.SIGKILL)
    while ranks.keys() != {(5, "far.0")}:
        ranks, text = shown_later(passes, job)
    assert "started later and have ended: 1" in text
    passes([str(MACPRUN), "kill", str(job.pid)])
    nothing_is_left(job, job.pid)


def test_a_rank_that_goes_on_while_it_is_looked_at_is_no_error():
    doing = Doing(rank=0, what=membership.DOING.index("computes"), whom=3, notice=0)
    assert ranks._text(doing) == "computes"
