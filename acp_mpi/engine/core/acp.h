/* acp_mpi for programs in C: the calls of the ACP basic layer, on the job of this process.
 *
 * This interface is unstable: it may change with any release of acp_mpi. A program that was compiled for
 * another release is refused by acp_init and acp_import, which say so.
 *
 * `acp_mpi.get_include()` names the folder of this file. The job itself belongs to Python:
 *
 * - A program in C begins by acp_init and ends by acp_finalize. These start a Python interpreter, with which
 *   the process joins the job as any Python program does; all other calls run without the interpreter. It
 *   includes <Python.h> before this file where it calls these two, acp_reset or acp_abort, and is linked
 *   with libpython (docs/c_interface.md has the command).
 * - An extension module that a Python program has loaded calls acp_import in its initialisation, and the rest
 *   between `acp.init()` and `acp.finalize()` of that program. It is linked with nothing.
 *
 * Calls mean what the functions of the same names in C ACP, and in Python, mean (docs/semantics.md). Rules for all
 * of them, unless one says otherwise:
 *
 * - Errors. A function that returns int returns ACP_OK or a status below 0; one that returns an address, a key
 *   or a handle returns 0 instead, and one that returns a pointer NULL. acp_last_fault has the details. A call
 *   that failed has changed nothing. No call may come before acp_init or acp_import has succeeded.
 * - Threads. All threads of the process may call at the same time, with or without Python's interpreter lock. A
 *   call that waits is better made without it (Py_BEGIN_ALLOW_THREADS): other threads of Python wait as long.
 * - Signals. A wait in Python's main thread runs Python's signal handlers. If one raises, the call returns
 *   ACP_E_INTERRUPTED with that exception set: an extension returns NULL to Python then. Calls that return when
 *   they are done (put, get, fetch, malloc, free, unregister) are done then, too. acp_init installs no handlers:
 *   Ctrl-C ends a program in C.
 * - Visibility. What a call has written is there for all ranks when it returns (put, get, fetch, free), or when
 *   its handle is complete (copy, atomics, iput, iget). Plain stores that the calling thread made before
 *   a call are seen by it. Aligned words of 4 and 8 bytes are read and written whole.
 * - Units. Sizes are bytes, times nanoseconds, ranks 0 to acp_procs() - 1. */
#ifndef ACP_H
#define ACP_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t acp_ga_t;     /* a global address; arithmetic inside its region is plain addition */
typedef uint64_t acp_atkey_t;  /* memory that this process has registered */
typedef uint64_t acp_handle_t; /* an operation: its number among those of this process */

#define ACP_GA_NULL ((acp_ga_t)0)
#define ACP_HANDLE_NULL ((acp_handle_t)0)                /* as order: none */
#define ACP_HANDLE_ALL ((acp_handle_t)INT64_MAX)         /* all operations of this process so far */
#define ACP_HANDLE_CONT ((acp_handle_t)INT64_MAX - 1)    /* the calling thread's last one alone */
#define ACP_FOREVER INT64_MAX                            /* as timeout */

typedef enum acp_status {
    ACP_OK = 0,
    ACP_E_NULL = -1,        /* the null address */
    ACP_E_RANK = -2,        /* no such rank */
    ACP_E_UNREGISTERED = -3,/* no memory there, or not any more */
    ACP_E_BOUNDS = -4,      /* runs past the end of its region */
    ACP_E_ALIGN = -5,       /* a word is not at a multiple of its size */
    ACP_E_FULL = -6,        /* the memory limit of the rank */
    ACP_E_LOST = -7,        /* the rank has died, or left */
    ACP_E_TIMEOUT = -8,
    ACP_E_INTERRUPTED = -9, /* a signal handler has ended the wait */
    ACP_E_BUSY = -10,       /* only inside the library */
    ACP_E_SYSTEM = -11,     /* the system refused: errno in the fault */
    ACP_E_PRIVATE = -12,    /* memory that this process cannot load from */
    ACP_E_FINALIZING = -13, /* another rank is in finalize */
    ACP_E_HANDLE = -14,     /* not a handle */
    ACP_E_CLOSED = -15,     /* no job: before init, after finalize, or in a forked child */
    ACP_E_ARGUMENT = -16,   /* a size, color or comparison that does not exist */
    ACP_E_MPI = -17,        /* MPI failed: its error code in the fault */
    ACP_E_BLOCK = -18,      /* not the address of a block of the heap */
    ACP_E_DAMAGED = -19,    /* something wrote past the end of a block */
    ACP_E_DESTROYED = -20,  /* from here to ACP_E_TYPE: of containers, messages and collectives */
    ACP_E_TRUNCATED = -21,
    ACP_E_CANCELLED = -22,
    ACP_E_MISMATCH = -23,
    ACP_E_LEFT = -24,
    ACP_E_OVERFLOW = -25,
    ACP_E_REGIONS = -26,    /* the rank has as many registered regions as there may be */
    ACP_E_TAKEN = -27,
    ACP_E_SHORT = -28,      /* connections wait for want of a file descriptor of this process */
    ACP_E_TYPE = -29,
    ACP_E_DEVICE = -30,     /* device memory, which this call cannot use */
    ACP_E_DRIVER = -31,     /* the driver of a device failed: its error number in the fault */
} acp_status;

typedef enum acp_compare {
    ACP_EQ = 0, ACP_NE, ACP_LT, ACP_LE, ACP_GT, ACP_GE
} acp_compare;

/* Why a call has failed. */
typedef struct acp_fault {
    int status;
    int error;          /* errno, or MPI's code */
    acp_ga_t ga;        /* the address, or 0 */
    uint64_t size;      /* bytes from there on */
    int64_t rank;       /* the owner of `ga`, or the lost rank; -1: none */
    uint64_t low, high; /* offsets of its region, when known */
} acp_fault;

/* The functions, as acp_mpi hands them out, for the calls below. */
#define ACP_API_VERSION 1u
#define ACP_API_NAME "acp_mpi.engine._engine._c_api"
typedef acp_handle_t acp_atomic4_fn(acp_ga_t, acp_ga_t, uint32_t, acp_handle_t);
typedef acp_handle_t acp_atomic8_fn(acp_ga_t, acp_ga_t, uint64_t, acp_handle_t);
typedef int acp_fetch4_fn(acp_ga_t, uint32_t, uint32_t *);
typedef int acp_fetch8_fn(acp_ga_t, uint64_t, uint64_t *);
struct acp_api {
    uint32_t version;
    int (*rank)(void), (*procs)(void), (*sync)(void), (*colors)(void);
    acp_ga_t (*query_starter_ga)(int);
    acp_atkey_t (*register_memory)(void *, size_t, int);
    int (*unregister_memory)(acp_atkey_t);
    acp_ga_t (*query_ga)(acp_atkey_t, const void *);
    void *(*query_address)(acp_ga_t);
    int (*query_rank)(acp_ga_t), (*query_color)(acp_ga_t);
    acp_ga_t (*heap_malloc)(size_t, int);
    int (*heap_free)(acp_ga_t);
    acp_handle_t (*copy)(acp_ga_t, acp_ga_t, size_t, acp_handle_t);
    acp_handle_t (*iput)(acp_ga_t, const void *, size_t, acp_handle_t);
    acp_handle_t (*iget)(void *, acp_ga_t, size_t, acp_handle_t);
    int (*put)(acp_ga_t, const void *, size_t);
    int (*get)(void *, acp_ga_t, size_t);
    acp_handle_t (*cas4)(acp_ga_t, acp_ga_t, uint32_t, uint32_t, acp_handle_t);
    acp_handle_t (*cas8)(acp_ga_t, acp_ga_t, uint64_t, uint64_t, acp_handle_t);
    acp_atomic4_fn *swap4, *add4, *xor4, *or4, *and4;
    acp_atomic8_fn *swap8, *add8, *xor8, *or8, *and8;
    int (*fetch_cas4)(acp_ga_t, uint32_t, uint32_t, uint32_t *);
    int (*fetch_cas8)(acp_ga_t, uint64_t, uint64_t, uint64_t *);
    acp_fetch4_fn *fetch_swap4, *fetch_add4, *fetch_xor4, *fetch_or4, *fetch_and4;
    acp_fetch8_fn *fetch_swap8, *fetch_add8, *fetch_xor8, *fetch_or8, *fetch_and8;
    int (*complete)(acp_handle_t), (*wait)(acp_handle_t), (*inquire)(acp_handle_t);
    int (*wait_until4)(acp_ga_t, acp_compare, uint32_t, int64_t);
    int (*wait_until8)(acp_ga_t, acp_compare, uint64_t, int64_t);
    void (*last_fault)(acp_fault *);
    const char *(*status_name)(int);
};

#ifndef ACP_ENGINE /* the engine's own sources have the types only */

#ifdef Py_PYTHON_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One for all sources of a program, or of an extension. */
__attribute__((weak, visibility("hidden"))) const struct acp_api *acp_api;
__attribute__((weak, visibility("hidden"))) int acp_embeds; /* acp_init has started the interpreter */

/* The calling process's rank; the highest rank of the job + 1. -1 without a job. */
static inline int acp_rank(void) { return acp_api->rank(); }
static inline int acp_procs(void) { return acp_api->procs(); }

/* Complete the operations of this process, then wait for all ranks. Collective over the living. Returns the first
 * error of operations that no call has completed; ACP_E_LOST if a rank has died, until Python's acp.refresh accepts
 * that; ACP_E_FINALIZING if a rank is in finalize. */
static inline int acp_sync(void) { return acp_api->sync(); }

/* The address of the starter memory of a rank, which is zero at start, and as large as ACP_STARTER_SIZE
 * says on that rank (10240). At once. ACP_E_RANK. */
static inline acp_ga_t acp_query_starter_ga(int rank) { return acp_api->query_starter_ga(rank); }

/* Make `size` bytes of this process, which must stay in place, global memory of `color` (0 to acp_colors() - 1), until
 * acp_unregister_memory or acp_reset. Local. Atomics on them are run by this process, also for ranks of the same
 * node. ACP_E_ARGUMENT for no bytes or no such color, ACP_E_FULL, ACP_E_REGIONS. */
static inline acp_atkey_t acp_register_memory(void *address, size_t size, int color)
{
    return acp_api->register_memory(address, size, color);
}

/* End a registration: the addresses die at once on every rank. Waits until no operation is inside the memory any more,
 * which the caller may free then. ACP_E_UNREGISTERED for a key that is over. */
static inline int acp_unregister_memory(acp_atkey_t key) { return acp_api->unregister_memory(key); }

/* The global address of a byte of registered memory. At once. ACP_E_BOUNDS outside of it. */
static inline acp_ga_t acp_query_ga(acp_atkey_t key, const void *address)
{
    return acp_api->query_ga(key, address);
}

/* The address at which this process loads and stores the byte at `ga`: of its own memory, and of global memory of
 * ranks of the same node. Valid until the memory is given back, reset or finalize. ACP_E_PRIVATE for memory that
 * load and store do not reach: of another node, or registered by another rank. */
static inline void *acp_query_address(acp_ga_t ga) { return acp_api->query_address(ga); }

/* The rank and the color in an address, without looking whether there is anything; -1 for the null address. */
static inline int acp_query_rank(acp_ga_t ga) { return acp_api->query_rank(ga); }
static inline int acp_query_color(acp_ga_t ga) { return acp_api->query_color(ga); }
static inline int acp_colors(void) { return acp_api->colors(); }

/* A block of the heap of any rank, without that rank's help, at a multiple of 16 and not zeroed; a size of 0
 * gives an address of its own, too. It lives until acp_free, acp_reset or the end of that rank. Waits for the
 * owner's answer where load and store do not reach the heap. ACP_E_FULL, ACP_E_RANK, ACP_E_LOST. */
static inline acp_ga_t acp_malloc(size_t size, int rank) { return acp_api->heap_malloc(size, rank); }

/* Give a block back, from any rank. ACP_E_BLOCK for an address that acp_malloc has not returned or that is free
 * already, ACP_E_DAMAGED: the heap stays as it is. */
static inline int acp_free(acp_ga_t ga) { return acp_api->heap_free(ga); }

/* Start a copy of `size` bytes from any rank to any rank, of which the caller need be neither. It begins when
 * `order` and all operations before that are complete (ACP_HANDLE_CONT: when the thread's last one alone
 * is), and does not run if those have failed. Any alignment, overlap as memmove, size 0 allowed. Errors that
 * this process can know come at once, others at completion. Waits if 256 operations are under way. */
static inline acp_handle_t acp_copy(acp_ga_t dst, acp_ga_t src, size_t size, acp_handle_t order)
{
    return acp_api->copy(dst, src, size, order);
}

/* The same from, and to, any memory of this process, which must stay until the operation is complete. */
static inline acp_handle_t acp_iput(acp_ga_t dst, const void *src, size_t size, acp_handle_t order)
{
    return acp_api->iput(dst, src, size, order);
}
static inline acp_handle_t acp_iget(void *dst, acp_ga_t src, size_t size, acp_handle_t order)
{
    return acp_api->iget(dst, src, size, order);
}

/* The same, done when they return; the caller waits where load and store do not reach the memory. */
static inline int acp_put(acp_ga_t dst, const void *src, size_t size) { return acp_api->put(dst, src, size); }
static inline int acp_get(void *dst, acp_ga_t src, size_t size) { return acp_api->get(dst, src, size); }

/* acp_cas4, acp_cas8 start: if the word at `src` is `old`, it becomes `value`; what it was goes to `dst`, any
 * global address, or ACP_GA_NULL for nowhere. acp_fetch_cas4, acp_fetch_cas8 are done when they return,
 * with what it was in `*was`. Words lie at multiples of their size (ACP_E_ALIGN). An atomic is one against all
 * other atomics of all ranks, and against the processor's own on memory that is not registered. */
static inline acp_handle_t acp_cas4(acp_ga_t dst, acp_ga_t src, uint32_t old, uint32_t value, acp_handle_t order)
{
    return acp_api->cas4(dst, src, old, value, order);
}
static inline acp_handle_t acp_cas8(acp_ga_t dst, acp_ga_t src, uint64_t old, uint64_t value, acp_handle_t order)
{
    return acp_api->cas8(dst, src, old, value, order);
}
static inline int acp_fetch_cas4(acp_ga_t ga, uint32_t old, uint32_t value, uint32_t *was)
{
    return acp_api->fetch_cas4(ga, old, value, was);
}
static inline int acp_fetch_cas8(acp_ga_t ga, uint64_t old, uint64_t value, uint64_t *was)
{
    return acp_api->fetch_cas8(ga, old, value, was);
}

/* Likewise, on the word at `src`: swap puts `value` there, add adds it, modulo the word, xor, or and and
 * combine its bits with it. So there are acp_add8(dst, src, value, order), acp_fetch_add8(ga, value, &was) and
 * the like. */
#define ACP_ATOMIC(name, type)                                                                                \
    static inline acp_handle_t acp_##name(acp_ga_t dst, acp_ga_t src, type value, acp_handle_t order)         \
    {                                                                                                         \
        return acp_api->name(dst, src, value, order);                                                         \
    }                                                                                                         \
    static inline int acp_fetch_##name(acp_ga_t ga, type value, type *was)                                    \
    {                                                                                                         \
        return acp_api->fetch_##name(ga, value, was);                                                         \
    }
ACP_ATOMIC(swap4, uint32_t)
ACP_ATOMIC(swap8, uint64_t)
ACP_ATOMIC(add4, uint32_t)
ACP_ATOMIC(add8, uint64_t)
ACP_ATOMIC(xor4, uint32_t)
ACP_ATOMIC(xor8, uint64_t)
ACP_ATOMIC(or4, uint32_t)
ACP_ATOMIC(or8, uint64_t)
ACP_ATOMIC(and4, uint32_t)
ACP_ATOMIC(and8, uint64_t)
#undef ACP_ATOMIC

/* Wait until an operation and all before it are complete (acp_wait: it alone). Handles that are null, unknown
 * or complete return at once. Returns the first error of these operations and forgets the others: each is
 * reported once. ACP_E_INTERRUPTED leaves them running. Operations of Python and of C count alike. */
static inline int acp_complete(acp_handle_t handle) { return acp_api->complete(handle); }
static inline int acp_wait(acp_handle_t handle) { return acp_api->wait(handle); }

/* 1 while an operation or one before it is running, else 0. At once. */
static inline int acp_inquire(acp_handle_t handle) { return acp_api->inquire(handle); }

/* Wait until a word of this process, unsigned, compares so with `value`. Asleep meanwhile; woken by any call of any
 * rank that writes there, not by a plain store. ACP_E_TIMEOUT, ACP_E_LOST if a rank dies and that is not accepted,
 * ACP_E_PRIVATE for another rank's word, ACP_E_ALIGN, ACP_E_INTERRUPTED. */
static inline int acp_wait_until4(acp_ga_t ga, acp_compare compare, uint32_t value, int64_t timeout)
{
    return acp_api->wait_until4(ga, compare, value, timeout);
}
static inline int acp_wait_until8(acp_ga_t ga, acp_compare compare, uint64_t value, int64_t timeout)
{
    return acp_api->wait_until8(ga, compare, value, timeout);
}

/* The details of the calling thread's last call that failed; a status in words, as "no such rank". */
static inline void acp_last_fault(acp_fault *fault) { acp_api->last_fault(fault); }
static inline const char *acp_status_name(int status) { return acp_api->status_name(status); }

#ifdef Py_PYTHON_H

/* Get the functions; called once by an extension, with the interpreter lock. Returns 0, or -1 with ImportError set. It
 * does not start a job. */
static inline int acp_import(void)
{
    PyObject *module = PyImport_ImportModule("acp_mpi.engine._engine");
    PyObject *capsule = module ? PyObject_GetAttrString(module, "_c_api") : NULL;
    const struct acp_api *api = NULL;
    if (capsule)
        api = (const struct acp_api *)PyCapsule_GetPointer(capsule, ACP_API_NAME);
    if (api && api->version != ACP_API_VERSION) {
        PyErr_Format(PyExc_ImportError, "this was compiled with version %u of acp.h, and acp_mpi has version %u: "
                     "compile it again", ACP_API_VERSION, api->version);
        api = NULL;
    }
    Py_XDECREF(capsule);
    Py_XDECREF(module);
    acp_api = api;
    return api ? 0 : -1;
}

/* Call a function of acp_mpi; 0, or -1 after its exception has been printed. Takes `argument` over. */
static inline int acp_python_(const char *name, PyObject *argument)
{
    PyObject *module = PyImport_ImportModule("acp_mpi"), *result = NULL;
    if (module)
        result = argument ? PyObject_CallMethod(module, name, "O", argument)
                          : PyObject_CallMethod(module, name, NULL);
    if (!result)
        PyErr_Print();
    int rc = result ? 0 : -1;
    Py_XDECREF(module);
    Py_XDECREF(argument);
    Py_XDECREF(result);
    return rc;
}

/* Leave in argv what init has left of it in sys.argv. */
static inline void acp_take_options_(int *argc, char **argv)
{
    PyObject *left = PySys_GetObject("argv");
    int kept = 1;
    for (int i = 1; left && i < *argc; i++) {
        PyObject *next = kept < PyList_Size(left) ? PyUnicode_EncodeFSDefault(PyList_GetItem(left, kept)) : NULL;
        if (next && !strcmp(PyBytes_AsString(next), argv[i]))
            argv[kept++] = argv[i];
        Py_XDECREF(next);
    }
    if (left && kept < *argc)
        argv[*argc = kept] = NULL;
}

/* Interpreter in whose environment acp_mpi is installed. */
#ifndef ACP_PYTHON
#define ACP_PYTHON "python3" /* the first one in the PATH */
#endif

static inline int acp_start_python_(int argc, char **argv)
{
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.parse_argv = 0;
    config.install_signal_handlers = 0;
    PyStatus status = PyConfig_SetBytesArgv(&config, argc, argv);
    if (!PyStatus_Exception(status))
        status = PyConfig_SetBytesString(&config, &config.program_name, ACP_PYTHON);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (!PyStatus_Exception(status))
        return 0;
    fprintf(stderr, "acp_init: Python does not start: %s\n", status.err_msg ? status.err_msg : "it has ended");
    return -1;
}

/* Start a Python interpreter, unless there is one, and join the job with it as `acp.init()` does: collective
 * over the group, and it waits for the groups that the job announces. Takes the options --acp-… out of
 * the arguments. The process has no interpreter lock afterwards: a thread that calls Python takes it
 * by PyGILState_Ensure. Returns 0, or -1 after the reason has been printed. By one thread. */
static inline int acp_init(int *argc, char ***argv)
{
    PyGILState_STATE state = PyGILState_UNLOCKED;
    if (Py_IsInitialized())
        state = PyGILState_Ensure();
    else if (acp_start_python_(*argc, *argv))
        return -1;
    else
        acp_embeds = 1;
    int rc = acp_python_("init", NULL);
    if (!rc && (rc = acp_import()))
        PyErr_Print();
    acp_take_options_(argc, *argv);
    if (!acp_embeds)
        PyGILState_Release(state);
    else if (rc)
        acp_embeds = Py_FinalizeEx() > 0;
    else
        PyEval_SaveThread();
    return rc;
}

/* Complete all operations and end the job, collectively over the living, and the interpreter if acp_init has
 * started it: MPI is finalized then. No other thread may be in a call. Returns 0, or -1 after an error
 * of an operation has been printed. By the thread that called acp_init. */
static inline int acp_finalize(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int rc = acp_python_("finalize", NULL);
    if (!acp_embeds)
        PyGILState_Release(state);
    else if (Py_FinalizeEx())
        rc = -1;
    acp_embeds = 0;
    return rc;
}

/* Return to the state after acp_init, this process with another rank; collective. All global memory but the
 * starter's is given back, and that is zero again. 0, or -1 after the reason has been printed. */
static inline int acp_reset(int rank)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int rc = acp_python_("reset", PyLong_FromLong(rank));
    PyGILState_Release(state);
    return rc;
}

/* End this process at once with `message` on stderr; the launcher may end the rest of its MPI group, the ranks
 * of other groups get ACP_E_LOST. */
static inline void acp_abort(const char *message)
{
    PyGILState_Ensure();
    acp_python_("abort", PyUnicode_DecodeLocale(message, "replace"));
    abort();
}

#endif /* Py_PYTHON_H */

#ifdef __cplusplus
}
#endif

#endif /* ACP_ENGINE */
#endif
