"""A command that a kernel begins: what it takes beyond the launch and the end of that kernel."""

import importlib
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
from harness import US, Effort, Goal, Row, progress, singles

import acp_mpi as acp

Store = Callable[[acp.DelegateRing, int], None]
KERNEL = "kernel void fire(global ulong *ring, ulong slot, ulong k) { ring[slot] = k; }"


def of_opencl() -> tuple[Any, Store]:
    """Return the device of rings, and what has a kernel store 1, and waits for its end."""
    cl = importlib.import_module("pyopencl")
    queue = cl.CommandQueue(cl.Context(cl.get_platforms()[0].get_devices()[:1]))
    fire = cl.Program(queue.context, KERNEL).build().fire

    def store(ring: acp.DelegateRing, slot: int) -> None:
        fire(queue, (1,), None, ring.buffer, np.uint64(slot), np.uint64(1))
        queue.finish()

    return queue, store


def of_the_host() -> tuple[Any, Store]:
    """Return the same with a store of the processor."""

    def store(ring: acp.DelegateRing, slot: int) -> None:
        ring.slots[slot] = 1

    return None, store


def measure(quick: bool) -> list[Row]:
    """Measure as the one rank of the job."""
    effort, rows = Effort.of(quick), []
    with acp.init():
        d = acp.delegate()
        for name, make in {"OpenCL": of_opencl, "the processor": of_the_host}.items():
            try:
                device, store = make()
            except Exception as reason:  # of pyopencl, or of a driver
                progress(f"{name} is left out: {reason}")
                continue
            ring, other = d.ring(device=device), d.ring(device=device)
            ring.command(1, d.ping)
            fired = 0

            def firing(count: int, ring: acp.DelegateRing = ring, store: Store = store) -> None:
                nonlocal fired
                for _ in repeat(None, count):
                    request = ring.next()
                    store(ring, fired % len(ring.slots))
                    fired += 1
                    request.wait()

            def alone(count: int, other: acp.DelegateRing = other, store: Store = store) -> None:
                for _ in repeat(None, count):
                    store(other, 0)

            with ring:
                one, launched = (each.median for each in singles(effort, firing, alone))
            other.slots[0] = 0
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
