/* One system call for Python: ctypes takes a quarter of the time in which a process that starts
 * others gets ready. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <sys/prctl.h>

static PyObject *become(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"become", become, METH_NOARGS, "Become the parent of all descendants that lose theirs."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_subreaper",
    .m_doc = "Who becomes the parent of processes that lose theirs.", .m_size = 0, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__subreaper(void)
{
    return PyModuleDef_Init(&definition);
}
