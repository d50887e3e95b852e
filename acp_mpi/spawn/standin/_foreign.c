/* The functions by which C code makes objects of handles and takes handles of objects, as mpi4py exports
 * them, for the classes that stand for mpi4py's. Each calls mpi4py's own function. What is made gets a class
 * of ours, without which neither PyObject_TypeCheck nor a typed argument of Cython would know it; an object
 * that MPI knows nothing of is refused, for mpi4py would hand out its null handle.
 *
 * Handles of MPI are 32-bit numbers or pointers, depending on the library, and the calling conventions pass
 * both in the same register: one build serves all libraries. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* What can be made, and of what a handle can be asked; X(name). */
#define MADE(X) X(Comm) X(Group) X(Request) X(Prequest) X(Message) X(Win) X(File)
#define ASKED(X) X(Comm) X(Group) X(Request) X(Message) X(Win) X(File)

typedef PyObject *make_function(uintptr_t handle);
typedef void *ask_function(PyObject *thing);

static PyObject *dress; /* returns an object of ours for what mpi4py has made */
static PyObject *refuse; /* raises for an object without a handle, called with a name and the object */

static PyObject *dressed(PyObject *made)
{
    if (!made)
        return NULL;
    PyObject *ours = PyObject_CallOneArg(dress, made);
    Py_DECREF(made);
    return ours;
}

static int refused(const char *name, PyObject *thing)
{
    PyObject *none = PyObject_CallFunction(refuse, "sO", name, thing);
    Py_XDECREF(none);
    return !none;
}

#define MAKE(kind)                                   \
    static make_function *make_##kind;               \
    static PyObject *kind##_new(uintptr_t handle)    \
    {                                                \
        return dressed(make_##kind(handle));         \
    }
MADE(MAKE)

#define ASK(kind)                                                                 \
    static ask_function *ask_##kind;                                              \
    static void *kind##_get(PyObject *thing)                                      \
    {                                                                             \
        return refused("PyMPI" #kind "_Get", thing) ? NULL : ask_##kind(thing);   \
    }
ASKED(ASK)

/* C has no conversion between addresses of objects and of functions: their bytes are copied. */
struct export {
    const char *name;
    void *original; /* where the address of mpi4py's function is kept */
    void (*replacement)(void);
};

#define MAKE_EXPORT(kind) {"PyMPI" #kind "_New", &make_##kind, (void (*)(void))kind##_new},
#define ASK_EXPORT(kind) {"PyMPI" #kind "_Get", &ask_##kind, (void (*)(void))kind##_get},
static const struct export exports[] = {MADE(MAKE_EXPORT) ASKED(ASK_EXPORT)};

/* Return a dict like mpi4py's, of capsules of the functions here for those of it that are replaced. */
static PyObject *replaced(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *given, *new_dress, *new_refuse;
    if (!PyArg_ParseTuple(args, "O!OO", &PyDict_Type, &given, &new_dress, &new_refuse))
        return NULL;
    PyObject *result = PyDict_Copy(given);
    if (!result)
        return NULL;
    for (size_t i = 0; i < sizeof exports / sizeof *exports; i++) {
        PyObject *capsule = PyDict_GetItemString(given, exports[i].name);
        if (!capsule) /* another version of mpi4py */
            continue;
        const char *signature = PyCapsule_GetName(capsule); /* lives as long as mpi4py, which is for good */
        void *function = PyCapsule_GetPointer(capsule, signature);
        if (!function)
            goto failed;
        memcpy(exports[i].original, &function, sizeof function);
        memcpy(&function, &exports[i].replacement, sizeof function);
        PyObject *ours = PyCapsule_New(function, signature, NULL);
        if (!ours || PyDict_SetItemString(result, exports[i].name, ours)) {
            Py_XDECREF(ours);
            goto failed;
        }
        Py_DECREF(ours);
    }
    Py_INCREF(new_dress);
    Py_XSETREF(dress, new_dress);
    Py_INCREF(new_refuse);
    Py_XSETREF(refuse, new_refuse);
    return result;
failed:
    Py_DECREF(result);
    return NULL;
}

static PyMethodDef methods[] = {
    {"replaced", replaced, METH_VARARGS, "Return mpi4py's functions for C, with those of our classes replaced."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_foreign", .m_doc = "What C code calls with objects of ours.",
    .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__foreign(void)
{
    return PyModule_Create(&definition);
}
