"""A command that a kernel begins: what it takes beyond the launch and the end of that kernel."""

import importlib
import time
from collections.abc import Callable
from itertools import repeat

import numpy as np
from harness import US, Effort, Goal, Row, progress, singles

import acp_mpi as acp

KERNEL = "kernel void fire(global ulong *ring, ulong slot, ulong k) { ring[slot] = k; }"


def of_opencl() -> tuple[acp.DelegateRing, Callable[[int], None]]:
    """Return a ring, and what launches a kernel that stores 1 in a slot, and waits for its end."""
    cl = importlib.import_module("pyopencl")
    queue = cl.CommandQueue(cl.Context(cl.get_platforms()[0].get_devices()[:1]))
    fire, ring = cl.Program(queue.context, KERNEL).build().fire, acp.delegate().ring(device=queue)

    def store(slot: int) -> None:
        fire(queue, (1,), None, ring.buffer, np.uint64(slot), np.uint64(1))
        queue.finish()

    return ring, store


def of_the_host() -> tuple[acp.DelegateRing, Callable[[int], None]]:
    """Return the same with a store of the processor."""
    ring = acp.delegate().ring()

    def store(slot: int) -> None:
        ring.slots[slot] = 1

    return ring, store


def measure(quick: bool) -> list[Row]:
    """Measure as the one rank of the job."""
    effort, rows = Effort.of(quick), []
    with acp.init():
        d = acp.delegate()
        for name, make in {"OpenCL": of_opencl, "the processor": of_the_host}.items():
            try:
                ring, store = make()
            except Exception as reason:  # of pyopencl, or of a driver
                progress(f"{name} is left out: {reason}")
                continue
            ring.command(1, d.ping)
            fired = 0

            def firing(
                count: int, ring: acp.DelegateRing = ring, store: Callable[[int], None] = store
            ) -> None:
                nonlocal fired
                for _ in repeat(None, count):
                    request = ring.next()
                    store(fired % len(ring.slots))
                    fired += 1
                    request.wait()

            def alone(count: int, store: Callable[[int], None] = store) -> None:
                for _ in repeat(None, count):
                    store(0)

            with ring:
                one = singles(effort, firing)[0].median
            alone(10)  # the ring is not armed
            launched = singles(effort, alone)[0].median
            ring.slots[:] = 0
            rows.append(
                Row(f"a command that a kernel of {name} fires, beyond its launch", "µs",
                    (one - launched) / US, "the launch", launched / US, Goal(at_most=20.0))
            )  # fmt: skip
        start, before = time.perf_counter(), d.statistics().processor
        with ring:
            time.sleep(1.0)
        used = (d.statistics().processor - before) / (time.perf_counter() - start)
    rows.append(Row("processor time of 1 s with a ring that is armed", "ms", used * 1e3))
    return rows
