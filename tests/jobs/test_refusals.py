"""Where the system forbids the fast ways into a peer's memory, others serve, and `info` says so."""

import ctypes
import errno
import os
import platform
import struct

import launch
import pytest

import acp_mpi as acp
from acp_mpi.__main__ import main

RANKS = 3
LIBC = ctypes.CDLL(None, use_errno=True)
NOBODY = 65534
CALLS = {"x86_64": (310, 311), "aarch64": (270, 271)}  # process_vm_readv and process_vm_writev


def checked(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


# What the ranks do to themselves before init --------------------------------------------------


def drop_capabilities():
    """Leave root its name and nothing else, for root may look into every process."""
    header = struct.pack("=Ii", 0x20080522, 0)
    checked(LIBC.capset(header, bytes(24)))


def be_undumpable():
    drop_capabilities()
    checked(LIBC.prctl(4, 0, 0, 0, 0))  # PR_SET_DUMPABLE


def have_another_gid():
    if os.environ["ACP_GROUP_RANK"] == "1":
        os.setresgid(NOBODY, NOBODY, NOBODY)
    drop_capabilities()


def be_refused_process_vm():
    """Install a seccomp filter: these two calls are answered with EPERM, all others pass."""
    read, write = CALLS[platform.machine()]
    filters = b"".join(struct.pack("=HBBI", *line) for line in (
        (0x20, 0, 0, 0),  # load the number of the call
        (0x15, 1, 0, read), (0x15, 0, 1, write),  # one of them? to the next, else over it
        (0x06, 0, 0, 0x00050000 | errno.EPERM), (0x06, 0, 0, 0x7FFF0000),
    ))  # fmt: skip
    memory = ctypes.create_string_buffer(filters, len(filters))
    checked(LIBC.prctl(38, 1, 0, 0, 0))  # PR_SET_NO_NEW_PRIVS
    checked(LIBC.prctl(22, 2, struct.pack("=HxxxxxxQ", 5, ctypes.addressof(memory)), 0, 0))


RESTRICTIONS = {f.__name__: f for f in (be_undumpable, have_another_gid, be_refused_process_vm)}


# What they do then ----------------------------------------------------------------------------


def exchange(restriction):
    """Put, get, copy and add between all kinds of memory of all ranks."""
    RESTRICTIONS[restriction]()
    acp.init()
    rank, procs, size = acp.rank(), acp.procs(), 200_000
    array, plain = acp.zeros(size, "u1"), bytearray(size)
    key = acp.register_memory(plain)
    places = acp.allgather((acp.query_ga(array), acp.query_ga(key)))
    right, data = (rank + 1) % procs, bytes([rank + 1]) * size
    for ga in places[right]:
        acp.put(ga, data)
    acp.sync()
    left = bytes([(rank - 1) % procs + 1]) * size
    assert plain == left == array.tobytes()
    for ga in places[right]:
        assert acp.get(ga, bytearray(size)) == data
    acp.sync()
    acp.complete(acp.copy(places[(rank + 2) % procs][1], places[right][0], size))
    acp.sync()
    assert plain == bytes([(rank - 2) % procs + 1]) * size
    acp.sync()
    acp.put(places[right][1], bytes(8))
    acp.sync()
    for _, ga in places:
        acp.fetch_add8(ga, 1)
    acp.sync()
    assert int.from_bytes(plain[:8], "little") == procs
    acp.sync()
    key.close()
    acp.finalize()


def tell(restriction):
    RESTRICTIONS[restriction]()
    main(["info"])


def needs_root_for(restriction):
    if restriction == "have_another_gid" and os.geteuid() != 0:
        pytest.skip("only root can take another gid")
    if restriction == "be_refused_process_vm" and platform.machine() not in CALLS:
        pytest.skip(f"the numbers of the calls on {platform.machine()} are not known here")


@pytest.mark.parametrize("restriction", RESTRICTIONS)
def test_everything_works_by_other_ways(without_mpi, restriction):
    needs_root_for(restriction)
    for job in without_mpi(RANKS, launch.program(exchange, restriction)):
        assert job.wait() == 0, job.output


def roads(output):
    """Return the lines of the table of roads in what info prints."""
    table = output.partition("roads:")[2].partition("\ndevice memory")[0]
    return [line.split() for line in table.splitlines()[1:] if line]


def table_of(without_mpi, restriction):
    jobs = without_mpi(2, launch.program(tell, restriction))
    for job in jobs:
        assert job.wait() == 0, job.output
    return roads("".join(job.output for job in jobs))


@pytest.mark.parametrize("restriction", RESTRICTIONS)
def test_info_shows_another_way_than_without_the_restriction(start, without_mpi, restriction):
    needs_root_for(restriction)
    job = start([*launch.mpiexec(2), *launch.program(tell_freely)])
    assert job.wait() == 0, job.output
    free = {tuple(row[:2]): row[2:-2] for row in roads(job.output)}
    bound = {tuple(row[:2]): row[2:-2] for row in table_of(without_mpi, restriction)}
    for pair in (("0", "1"), ("1", "0")):
        assert bound[pair] != free[pair], f"info does not tell the difference: {bound[pair]}"


def tell_freely():
    main(["info"])
