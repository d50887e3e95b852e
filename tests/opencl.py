"""OpenCL for tests, where pyopencl and a driver are installed."""

import functools

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
