# Types under the name by which users have them: `help`, tracebacks and pickle say acp_mpi.Channel.

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        const char *tp_name

cdef list public_names = []  # what tp_name points to


cdef int name_types() except -1:
    cdef bytes public
    for name, kind in list(globals().items()):
        if isinstance(kind, type) and kind.__module__ == "_engine":
            public = f"acp_mpi.{name}".encode()
            public_names.append(public)
            (<PyTypeObject *>kind).tp_name = PyBytes_AS_STRING(public)
    return 0


name_types()
