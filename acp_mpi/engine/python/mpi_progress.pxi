# The thread that drives MPI for programs that need their windows moved; no engine is needed.

cdef extern from "mpi_window/progress_thread.h" nogil:
    ctypedef struct acp_mpi_progress
    ctypedef struct acp_mpi_progress_config:
        const char *user
        uintptr_t comm
        int any_source, tag
        uint64_t interval_ns
    int acp_mpi_progress_start(const acp_mpi_progress_config *, acp_mpi_progress **,
                               const char **)
    void acp_mpi_progress_pace(acp_mpi_progress *, uint64_t)
    void acp_mpi_progress_statistics(const acp_mpi_progress *, uint64_t *, uint64_t *)
    void acp_mpi_progress_stop(acp_mpi_progress *)


cdef class MpiProgress:
    """The thread, until `stop`. Only one Python thread at a time may call a method.

    `user` is the path of a loaded module that depends on the MPI library, then MPI's handle and
    constants; no message on `comm` has `tag`. Raises LookupError if MPI's functions are not found.
    """

    cdef acp_mpi_progress *thread

    def __init__(self, *, user: str, comm: int, any_source: int, tag: int, interval_ns: int):
        cdef acp_mpi_progress_config config
        cdef const char *missing = NULL
        path = user.encode()
        config.user = path
        config.comm = comm
        config.any_source = any_source
        config.tag = tag
        config.interval_ns = interval_ns
        cdef int rc = acp_mpi_progress_start(&config, &self.thread, &missing)
        if missing != NULL:
            raise LookupError(f"{missing.decode()} is not in the MPI library that mpi4py has loaded")
        if rc != ACP_OK:
            raise_status("progress", rc)

    def pace(self, interval_ns: int) -> None:
        """Nap that long at least."""
        acp_mpi_progress_pace(self.thread, interval_ns)

    def statistics(self) -> tuple[int, int]:
        """Return how often it has looked at MPI, and the nanoseconds that it has computed."""
        cdef uint64_t looks, processor
        acp_mpi_progress_statistics(self.thread, &looks, &processor)
        return looks, processor

    def stop(self) -> None:
        """End the thread; it calls MPI no more when this returns."""
        with nogil:
            acp_mpi_progress_stop(self.thread)
        self.thread = NULL
