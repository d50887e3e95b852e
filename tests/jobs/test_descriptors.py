"""Descriptors: a few for each peer, all closed by finalize; a child has its memory's alone."""

import contextlib
import errno
import os
import resource
import signal
import socket
import sys
import threading

import launch
import numpy as np
import pytest

import acp_mpi as acp

GREET = "import acp_mpi as acp; acp.init(); acp.finalize()"
OWN, EACH = 13, 3  # a peer: its memory, its doorbell, its process; or a link


def descriptors():
    """Return what this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except OSError:  # the one that lists
            continue
    return found


def talk_to_everybody():
    before = descriptors()
    with acp.init():
        plain = np.zeros(8, np.int64)
        with acp.register_memory(plain) as key:
            for ga in acp.allgather(acp.query_ga(key)):
                acp.fetch_add8(ga, 1)
            acp.sync()
            assert plain[0] == acp.procs()
            assert len(descriptors() - before) <= OWN + EACH * (acp.procs() - 1)
            acp.sync()
            child = os.fork()
            if child == 0:
                os._exit(any("memfd:" not in name for _, name in descriptors() - before))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            acp.sync()
    assert descriptors() == before


@pytest.mark.parametrize("road", ["any", "owner", "link"])
def test_descriptors_are_few_and_all_closed(without_mpi, road):
    for job in without_mpi(4, launch.program(talk_to_everybody), launch.ROADS[road]):
        assert job.wait() == 0, job.output


def be_interrupted_in_init():
    """Whoever it joins does not answer; the second time is as the first."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        before = descriptors()
        for _ in range(2):
            os.environ["ACP_RENDEZVOUS"] = f"127.0.0.1:{silent.getsockname()[1]}"
            os.environ["ACP_SECRET"] = "ab" * 32
            interrupter = threading.Thread(target=_interrupt_who_comes, args=(silent,))
            interrupter.start()
            with contextlib.suppress(KeyboardInterrupt):
                acp.init()
            interrupter.join()
            assert not acp.is_initialized()
            assert descriptors() == before


def _interrupt_who_comes(listener):
    connection, _ = listener.accept()
    with connection:
        os.kill(os.getpid(), signal.SIGINT)
        while connection.recv(4096):  # until it has gone
            pass


def test_who_is_interrupted_in_init_keeps_nothing(passes):
    passes(launch.program(be_interrupted_in_init), {"ACP_MPI": "0"})


MANY = 1100  # past what select takes


def grow_with_many_descriptors():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with acp.init():
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(MANY)]
        assert acp.spawn_group(launch.program(join_and_end), mpi=False).size == 1
        for file in files:
            os.close(file)


def join_and_end():
    with acp.init():
        pass


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[1] < MANY + 100, reason="a hard limit of open files"
)
def test_a_process_with_many_descriptors_starts_groups(passes):
    passes(launch.program(grow_with_many_descriptors), {"ACP_MPI": "0"})


def start_no_registry_at_first():
    from acp_mpi.spawn.groups import fork_server_client

    def fail(*given):
        raise OSError("no process")

    real, left = fork_server_client.make, []
    with acp.init():
        fork_server_client.make = fail
        for _ in range(3):
            with pytest.raises(OSError, match="no process"):
                acp.spawn_group([sys.executable, "-c", GREET], 1, mpi=False)
            left.append(descriptors())
        fork_server_client.make = real
        assert list(acp.spawn_group([sys.executable, "-c", GREET], 1, mpi=False).ranks) == [1]
    assert left[0] == left[2]


def test_a_registry_that_cannot_be_made_is_made_by_the_next_call(passes):
    passes(launch.program(start_no_registry_at_first), {"ACP_MPI": "0"})


FEW = 12  # ranks, each a node: most have not met before they need each other


def want_descriptors():
    """Rank 0 has none left for a while: an idle link gives its own up for the next one."""
    with acp.init():
        acp.sync()
        starters = [acp.query_starter_ga(rank) for rank in acp.ranks()]
        if acp.rank() == 0:
            before = resource.getrlimit(resource.RLIMIT_NOFILE)
            few = max(number for number, _ in descriptors()) + 1
            resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
            kept = []
            with contextlib.suppress(OSError):
                while True:  # where there are gaps
                    kept.append(os.open(os.devnull, os.O_RDONLY))
            acp.sync()
            for _ in range(3):
                for there in starters:
                    acp.fetch_add8(there + 8, 1)
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for file in kept:
                os.close(file)
        else:
            acp.sync()
            acp.fetch_add8(starters[0] + 16, 1)
        acp.sync()
        counted = acp.get(acp.query_starter_ga(acp.rank()), bytearray(24))
        assert counted[8] == 3
        assert counted[16] == (FEW - 1 if acp.rank() == 0 else 0)
        assert acp.losses() == 0
        acp.sync()


def test_who_wants_descriptors_uses_those_of_idle_links(without_mpi):
    for job in without_mpi(FEW, launch.program(want_descriptors), launch.ROADS["nodes"]):
        assert job.wait() == 0, job.output


NONE = 3  # numbers below this one are in use for ever


def have_no_descriptor():
    """Rank 0 can open nothing: it says so, and nobody takes it, or is taken, for dead."""
    raises = pytest.raises  # what opens files is done before
    with acp.init():
        there = acp.query_starter_ga(1)
        if acp.rank() == 0:
            before = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (NONE, before[1]))
            with raises(OSError, match=rf"fetch_add8: .*links are open.* is {NONE};") as caught:
                acp.fetch_add8(there, 1)
            assert caught.value.errno == errno.EMFILE
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            acp.fetch_add8(there, 1)  # so does the first one, in the end
        while acp.rank() == 1 and acp.fetch_add8(there, 0) < 2:
            threading.Event().wait(0.01)  # and opens no link meanwhile
        acp.sync()
        assert acp.losses() == 0
        assert acp.get(there, bytearray(8))[0] == 2
        acp.sync()


def test_who_has_no_descriptor_says_so_and_is_not_dead(without_mpi):
    env = launch.ROADS["nodes"] | {"ACP_PEER_TIMEOUT": "2"}
    for job in without_mpi(2, launch.program(have_no_descriptor), env):
        assert job.wait() == 0, job.output
