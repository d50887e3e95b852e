"""The table of ranks is stored once per node and takes no memory of the processes: a job of 100,000
ranks, of which a few are processes here and all others one simulated group."""

import json
import os
import random
import re
import struct
import threading
from pathlib import Path

import launch
import pytest

import acp_mpi as acp
from acp_mpi.engine import _engine
from acp_mpi.job.rendezvous import connector, secret
from acp_mpi.job.rendezvous.server import Server

ROW = 64
MIB = 1 << 20
SIMULATED = 100_000
RANKS = 4


def simulated_rows(count, seed=5):
    """Return rows of processes on other nodes of 64, as an engine would make them."""
    source = random.Random(seed)
    nonces = struct.unpack(f"<{count}Q", source.randbytes(8 * count))
    return [
        (rank, struct.pack("<QQ22xB", nonce, 1 + rank // 64, _engine.LAYOUT).ljust(ROW, b"\0"))
        for rank, nonce in enumerate(nonces)
    ]


# What the real processes do ---------------------------------------------------------------------


def private():
    """Return the bytes that this process has in mappings of its own."""
    total, own = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if mapping := re.match(r"[0-9a-f]+-[0-9a-f]+ ...(.)", line):
            own = mapping[1] == "p"
        elif own and line.startswith("Private_"):
            total += int(line.split()[1]) * 1024
    return total


def tables():
    """Return {inode: bytes in memory} of the tables of ranks that this process has open."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if os.path.exists(path) and "memfd:acp_mpi.ranks" in os.readlink(path):
            state = os.stat(path)
            found[state.st_ino] = state.st_blocks * 512
    return found


def leave(comm):
    """End without the simulated ranks, who will not come to finalize."""
    comm.Barrier()
    _engine.close()


def look(folder):
    """Write down what this process holds, after having used what looks at all ranks."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    acp.init(heap_size=16 * MIB)
    own, simulated = acp.group("main"), acp.group("simulated")
    assert acp.procs() == own.size + simulated.size
    assert list(own.ranks) == list(range(RANKS))
    assert simulated.ranks == range(RANKS, acp.procs())
    right = (acp.rank() + 1) % RANKS
    acp.put(acp.query_starter_ga(right), bytes([acp.rank() + 1]) * 8)
    acp.barrier(own.ranks)
    assert acp.get(acp.query_starter_ga(acp.rank()), bytearray(1)) == bytes([acp.rank() or RANKS])
    with pytest.raises((TimeoutError, acp.PeerLostError)):
        acp.sync(timeout=5)  # the set of everybody: the simulated cannot be reached
    seen = {"private": private(), "tables": tables()}
    Path(folder, f"{acp.procs()}-{acp.rank()}").write_text(json.dumps(seen))
    leave(comm)


def copy_what_cannot_be_mapped():
    """Behave like a system on which ranks 1 and 2 may not open the files of others."""
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank in (1, 2):
        _engine.map_table = lambda place: False
    acp.init()
    (own,) = tables()
    inodes = MPI.COMM_WORLD.allgather(own)
    assert inodes[0] == inodes[3]
    assert len(set(inodes)) == 3
    assert acp.allgather(acp.rank()) == list(range(4))
    old = acp.rank()
    acp.reset(3 - old)
    assert acp.rank() == 3 - old
    assert acp.group().ranks == (3, 2, 1, 0)
    assert acp.allgather(MPI.COMM_WORLD.rank) == [3, 2, 1, 0]
    acp.reset(old ^ 1)
    assert acp.group().ranks == (1, 0, 3, 2)
    acp.finalize()


# The tests --------------------------------------------------------------------------------------


@pytest.fixture
def meet_simulated(passes, tmp_path):
    """meet_simulated(count, command) runs a job of real processes and so many simulated ones."""

    def run(count, command):
        path = tmp_path / f"secret-{count}"
        key, rows = secret.create(path), simulated_rows(count)
        with Server(key, {"main": RANKS, "simulated": count}) as server:
            other = threading.Thread(
                target=connector.join,
                args=(server.address, key, "simulated", count, True, rows),
            )
            other.start()
            place = {"ACP_RENDEZVOUS": server.address, "ACP_SECRET_FILE": str(path)}
            place["ACP_WINDOW_SIZE"] = "0"  # MPI would complain that nobody has freed it
            passes(command, place, 100.0)
            other.join()

    return run


def test_100_000_ranks_take_64_bytes_each_once_and_no_private_memory(meet_simulated, tmp_path):
    seen = {}
    for simulated in (100, SIMULATED):
        meet_simulated(simulated, [*launch.mpiexec(RANKS), *launch.program(look, tmp_path)])
        seen[simulated] = [
            json.loads((tmp_path / f"{simulated + RANKS}-{rank}").read_text())
            for rank in range(RANKS)
        ]
    found = {inode: size for rank in seen[SIMULATED] for inode, size in rank["tables"].items()}
    assert len(found) == 1, f"more than one table on a node: {found}"
    assert [len(rank["tables"]) for rank in seen[SIMULATED]] == [1] * RANKS
    (size,) = found.values()
    assert 60 * SIMULATED <= size <= 64 * (SIMULATED + RANKS)
    few, many = (max(rank["private"] for rank in seen[n]) for n in (100, SIMULATED))
    # a copy would be 6.4 MB, an object for each rank at least as much
    assert many - few < 3 * MIB, f"{many - few} bytes more for each process"


def test_ranks_that_cannot_map_the_table_copy_it_and_reset_permutes_it(passes):
    passes([*launch.mpiexec(4), *launch.program(copy_what_cannot_be_mapped)])
