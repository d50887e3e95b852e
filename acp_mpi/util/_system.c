/* System calls for Python. The module os has some of them only where Python was built against a newer C
 * library than its makers want, as conda's is not; and ctypes takes a quarter of the time in which a process
 * that starts others gets ready. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !defined(SYS_pidfd_open) /* the headers are older than Linux 5.3; the kernel need not be */
#define SYS_pidfd_open 434
#endif

static PyObject *adopt_orphans(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *pidfd_open(PyObject *module, PyObject *pid)
{
    (void)module;
    long number = PyLong_AsLong(pid);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    long descriptor = syscall(SYS_pidfd_open, (pid_t)number, 0);
    return descriptor < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(descriptor);
}

static PyObject *memory_file(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    if (!text)
        return NULL;
    int descriptor = memfd_create(text, MFD_CLOEXEC);
    return descriptor < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(descriptor);
}

static void nothing(int number)
{
    (void)number;
}

static PyObject *survive(PyObject *module, PyObject *signal_number)
{
    (void)module;
    long number = PyLong_AsLong(signal_number);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    struct sigaction now, harmless = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    if (sigaction((int)number, NULL, &now) ||
        (now.sa_handler == SIG_DFL && sigaction((int)number, &harmless, NULL)))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *end_with(PyObject *module, PyObject *parent)
{
    (void)module;
    long number = PyLong_AsLong(parent);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    if (prctl(PR_SET_PDEATHSIG, SIGTERM))
        return PyErr_SetFromErrno(PyExc_OSError);
    if (getppid() != number) /* it ended before this process had asked to hear of that */
        _exit(128 + SIGTERM);
    Py_RETURN_NONE;
}

/* The words [begin, end) that this process was started with, as /proc/self/stat says: fields 50 and 51. */
static bool environment_block(char **begin, char **end)
{
    char line[4096];
    FILE *file = fopen("/proc/self/stat", "re");
    size_t size = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    line[size] = 0;
    const char *at = strrchr(line, ')'); /* behind the name, field 2 */
    for (int field = 2; at && field < 50; field++)
        at = strchr(at + 1, ' ');
    uintptr_t low = 0, high = 0;
    bool found = at && sscanf(at, "%" SCNuPTR " %" SCNuPTR, &low, &high) == 2 && low && low < high;
    *begin = (char *)low;
    *end = (char *)high;
    return found;
}

static PyObject *wipe_variable(PyObject *module, PyObject *name)
{
    (void)module;
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    char *at, *end;
    if (!text)
        return NULL;
    if (environment_block(&at, &end))
        for (size_t length; at < end; at += length + 1) {
            length = strnlen(at, (size_t)(end - at));
            if (length > (size_t)size && !memcmp(at, text, (size_t)size) && at[size] == '=')
                memset(at + size + 1, '*', length - (size_t)size - 1);
        }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"adopt_orphans", adopt_orphans, METH_NOARGS, "Become the parent of all descendants that lose theirs."},
    {"pidfd_open", pidfd_open, METH_O, "Return a descriptor that is readable when a process has ended."},
    {"memfd_create", memory_file, METH_O, "Return the descriptor of a new file that is in memory only."},
    {"end_with", end_with, METH_O,
     "Have this process, just forked by the main thread of its parent, terminated when that ends."},
    {"wipe_variable", wipe_variable, METH_O,
     "Overwrite a variable where others read what this process was started with."},
    {"survive", survive, METH_O, "Have a signal do nothing if it would end this process, until its end."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_system", .m_doc = "System calls that not every Python has.",
    .m_size = 0, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__system(void)
{
    return PyModuleDef_Init(&definition);
}
