"""OpenCL for tests, where pyopencl and a driver are installed."""

import functools
import warnings

import pytest


@functools.cache
def context():
    """Return a context on a processor; the test is skipped where OpenCL has none."""
    cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    try:
        devices = [each for place in cl.get_platforms() for each in place.get_devices()]
    except cl.Error as reason:
        pytest.skip(f"OpenCL has no platform here: {reason}")
    processors = [each for each in devices if each.type & cl.device_type.CPU]
    if not processors:
        pytest.skip("OpenCL has no processor as a device here")
    return cl.Context(processors[:1])


def queue():
    """Return a new queue of that context."""
    import pyopencl as cl

    return cl.CommandQueue(context())


def program():
    """Return a built program with a kernel `add`, which adds 1 to what an array of int has."""
    import pyopencl as cl

    text = "kernel void add(global int *a) { a[get_global_id(0)] += 1; }"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the compiler
        return cl.Program(context(), text).build()


def needs_kernels():
    """Skip the test where OpenCL builds no kernel, as PoCL does not on some processors."""
    context()
    import pyopencl as cl

    try:
        program()
    except cl.Error as reason:
        pytest.skip(f"OpenCL builds no kernel here: {str(reason)[:200]}")


class Held:
    """A queue that stands still from its start to the end of a `with` block, or `go_on`."""

    def __init__(self, queue):
        import pyopencl as cl

        self.gate = cl.UserEvent(queue.context)
        cl.enqueue_barrier(queue, wait_for=[self.gate])
        queue.flush()

    def go_on(self):
        import pyopencl as cl

        if self.gate is not None:
            self.gate.set_status(cl.command_execution_status.COMPLETE)
        self.gate = None

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.go_on()
