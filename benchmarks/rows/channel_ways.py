"""How two ranks of a node send bytes to each other: for each way a call to send, one to receive."""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

import acp_mpi as acp
from rows.messages import Calls

MIB = 1 << 20


class Way(NamedTuple):
    """Two calls with two arguments: what is sent or filled, and `peer`."""

    calls: Calls
    peer: int | None
    out: Any
    back: Any
    fills: bool = True


def slots(size: int) -> int:
    """Return the slots of a channel: a ring of more than the caches is no faster."""
    return 8 if size < MIB else 2


def both(stack: ExitStack, rank: int, **arguments: Any) -> tuple[acp.Channel, acp.Channel]:
    """Return the channel in which this rank sends, and the one in which it receives."""
    ends = [stack.enter_context(acp.Channel(r, 1 - r, **arguments)) for r in (0, 1)]
    return ends[rank], ends[1 - rank]


def _slots(there: acp.Channel, here: acp.Channel) -> Calls:
    """Write the bytes in a slot; take them from there and look at none."""
    reserve, take = there.reserve, here.__next__

    def send(out: object, _: None) -> None:
        with reserve() as view:
            view[:] = out

    def receive(_back: object, _: None) -> None:
        take()

    return send, receive


def _pipe(stack: ExitStack, comm: MPI.Intracomm) -> Calls:
    """Return the calls of a connection as multiprocessing.Pipe makes one."""
    if comm.rank == 0:
        with connection.Listener(family="AF_UNIX") as listener:
            comm.bcast(listener.address)
            end = listener.accept()
    else:
        end = connection.Client(comm.bcast(None))
    stack.enter_context(end)
    return end.send_bytes, end.recv_bytes_into


def _address(stack: ExitStack, comm: MPI.Intracomm) -> str:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="acp-bench-"))
    return f"ipc://{comm.bcast(os.path.join(folder, 'socket'))}"


def _zeromq(stack: ExitStack, comm: MPI.Intracomm) -> Calls:
    zmq, address = import_module("zmq"), _address(stack, comm)
    socket = stack.enter_context(stack.enter_context(zmq.Context()).socket(zmq.PAIR))
    if comm.rank == 0:
        socket.bind(address)
    comm.Barrier()
    if comm.rank:
        socket.connect(address)

    def receive(back: np.ndarray, _: int) -> None:
        back[:] = np.frombuffer(socket.recv(), np.uint8)

    return socket.send, receive


def _nng(stack: ExitStack, comm: MPI.Intracomm) -> Calls:
    pair, address = import_module("pynng").Pair0, _address(stack, comm)
    if comm.rank == 0:
        socket = stack.enter_context(pair(listen=address))
    comm.Barrier()
    if comm.rank:
        socket = stack.enter_context(pair(dial=address, block_on_dial=True))

    def send(out: np.ndarray, _: int) -> None:
        socket.send(out.tobytes())

    def receive(back: np.ndarray, _: int) -> None:
        back[:] = np.frombuffer(socket.recv(), np.uint8)

    return send, receive


def _remove_shared(prefix: str) -> None:
    """Remove what iceoryx2 leaves in shared memory, one file for all nodes of a name."""
    for file in Path("/dev/shm").glob(f"{prefix}*"):
        file.unlink(missing_ok=True)


def _iceoryx(stack: ExitStack, comm: MPI.Intracomm) -> Calls:
    iceoryx: Any = import_module("iceoryx2")
    folder = Path(comm.bcast(stack.enter_context(tempfile.TemporaryDirectory(prefix="acp-bench-"))))
    stack.callback(_remove_shared, folder.name)
    stack.callback(comm.Barrier)
    iceoryx.set_log_level(iceoryx.LogLevel.Error)
    config = iceoryx.config.default()
    config.global_cfg.prefix = iceoryx.FileName.new(folder.name)
    config.global_cfg.root_path = iceoryx.Path.new(str(folder))
    node = iceoryx.NodeBuilder.new().config(config).create(iceoryx.ServiceType.Ipc)
    services = [
        node.service_builder(iceoryx.ServiceName.new(f"from {rank}"))
        .publish_subscribe(iceoryx.Slice[ctypes.c_uint8])
        .enable_safe_overflow(False)
        .subscriber_max_buffer_size(slots(0))
        .open_or_create()
        for rank in (0, 1)
    ]
    wait = iceoryx.BackpressureStrategy.RetryUntilDelivered
    publisher = (
        services[comm.rank]
        .publisher_builder()
        .initial_max_slice_len(MIB)
        .backpressure_strategy(wait)
        .create()
    )
    subscriber = services[1 - comm.rank].subscriber_builder().create()
    stack.callback(publisher.delete)
    stack.callback(subscriber.delete)
    comm.Barrier()

    def send(out: np.ndarray, _: int) -> None:
        sample = publisher.loan_slice_uninit(out.nbytes)
        ctypes.memmove(sample.payload_ptr, out.ctypes.data, out.nbytes)
        sample.assume_init().send()

    def receive(back: np.ndarray, _: int) -> None:
        while (sample := subscriber.receive()) is None:
            pass
        ctypes.memmove(back.ctypes.data, sample.payload_ptr, back.nbytes)

    return send, receive


OTHERS = {
    "zmq": ("ZeroMQ", _zeromq),
    "pynng": ("nng", _nng),
    "iceoryx2": ("iceoryx2", _iceoryx),
}


@contextmanager
def opened(comm: MPI.Intracomm, size: int) -> Iterator[dict[str, Way]]:
    """Open all ways for messages of a size, by their names. Collective."""
    out, back = np.full(size, comm.rank, np.uint8), np.empty(size, np.uint8)
    peer, shape = 1 - comm.rank, {"size": size, "slots": slots(size)}
    with ExitStack() as stack:
        there, here = both(stack, comm.rank, **shape)
        ways = {
            "send/recv": Way((there.send, here.recv), None, out, back),
            "slots": Way(_slots(*both(stack, comm.rank, **shape)), None, out, back, fills=False),
            "acp.send": Way((acp.send, acp.recv), peer, out, back),
            "MPI": Way((comm.Send, comm.Recv), peer, [out, MPI.BYTE], [back, MPI.BYTE]),
            "Pipe": Way(_pipe(stack, comm), 0, out, back),
        }
        for module, (name, way) in OTHERS.items():
            if find_spec(module):
                ways[name] = Way(way(stack, comm), 0, out, back)
        yield ways
        comm.Barrier()  # nothing is closed that the other end still reads
