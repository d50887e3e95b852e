/* An extension module that uses acp.h (test_c_interface.py). */
#include <Python.h>
#include <acp.h>

static PyObject *failure(int status)
{
    if (status == ACP_E_INTERRUPTED)
        return NULL;
    return PyErr_Format(PyExc_RuntimeError, "%s", acp_status_name(status));
}

/* Sum doubles at a global address, as a kernel in C or Fortran would, without the interpreter lock. */
static PyObject *total(PyObject *module, PyObject *args)
{
    unsigned long long ga, count;
    double sum = 0, value;
    int status = ACP_OK;
    (void)module;
    if (!PyArg_ParseTuple(args, "KK", &ga, &count))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (unsigned long long i = 0; i < count && status == ACP_OK; i++) {
        status = acp_get(&value, ga + i * sizeof value, sizeof value);
        sum += value;
    }
    Py_END_ALLOW_THREADS
    return status == ACP_OK ? PyFloat_FromDouble(sum) : failure(status);
}

/* What each call does to a block on another rank: a name for the first that does not do so. */
#define NEED(condition) do { if (!(condition)) return #condition; } while (0)
static const char *try_all(int rank)
{
    acp_fault fault;
    uint64_t was, words[4] = {1, 2, 3, 4}, back[4];
    uint32_t small;
    acp_ga_t block = acp_malloc(sizeof words, rank);
    NEED(block && acp_query_rank(block) == rank && acp_query_color(block) == 0);
    NEED(acp_query_rank(ACP_GA_NULL) == -1 && acp_query_color(ACP_GA_NULL) == -1);
    NEED(acp_put(block, words, sizeof words) == ACP_OK);
    NEED(acp_get(back, block, sizeof back) == ACP_OK && back[3] == 4);
    NEED(acp_fetch_add8(block, 5, &was) == ACP_OK && was == 1);
    NEED(acp_fetch_cas8(block, 6, 7, &was) == ACP_OK && was == 6);
    NEED(acp_fetch_swap4(block + 8, 9, &small) == ACP_OK && small == 2);
    NEED(acp_fetch_cas4(block + 8, 1, 2, &small) == ACP_OK && small == 9);
    acp_handle_t h = acp_or8(ACP_GA_NULL, block + 16, 8, ACP_HANDLE_NULL);
    h = acp_copy(block + 24, block + 16, 8, h);
    h = acp_iget(back, block, sizeof back, ACP_HANDLE_CONT);
    NEED(h && acp_wait(h) == ACP_OK && acp_complete(ACP_HANDLE_ALL) == ACP_OK && !acp_inquire(h));
    NEED(back[0] == 7 && back[1] == 9 && back[2] == 11 && back[3] == 11);
    words[0] = 70;
    h = acp_iput(block, words, 8, ACP_HANDLE_NULL);
    NEED(acp_complete(h) == ACP_OK && acp_get(back, block, 8) == ACP_OK && back[0] == 70);

    acp_atkey_t key = acp_register_memory(&words[1], 24, 1);
    acp_ga_t own = acp_query_ga(key, &words[2]);
    NEED(key && own == key + 8 && acp_query_color(own) == 1 && acp_query_address(own) == &words[2]);
    NEED(!acp_query_ga(key, &words[4]) && !acp_query_ga(key, words));
    NEED(acp_complete(acp_copy(own, block, 8, ACP_HANDLE_NULL)) == ACP_OK && words[2] == 70);
    NEED(acp_unregister_memory(key) == ACP_OK && acp_unregister_memory(key) == ACP_E_UNREGISTERED);
    NEED(!acp_copy(own, block, 8, ACP_HANDLE_NULL));

    NEED(acp_free(block) == ACP_OK && acp_free(block) == ACP_E_BLOCK);
    acp_last_fault(&fault);
    NEED(fault.status == ACP_E_BLOCK && fault.ga == block && fault.rank == rank);
    NEED(!acp_malloc(8, acp_procs()) && !acp_query_starter_ga(-1));
    acp_last_fault(&fault);
    NEED(fault.status == ACP_E_RANK && fault.rank == -1);
    NEED(!acp_malloc((size_t)1 << 45, rank));
    acp_last_fault(&fault);
    NEED(fault.status == ACP_E_FULL);
    NEED(acp_fetch_add8(acp_query_starter_ga(rank) + 4, 1, &was) == ACP_E_ALIGN);
    acp_ga_t mine = acp_query_starter_ga(acp_rank());
    NEED(acp_wait_until8(mine, ACP_GT, 99, 1000) == ACP_E_TIMEOUT);
    NEED(acp_wait_until4(mine, (acp_compare)9, 99, 1000) == ACP_E_ARGUMENT);
    NEED(!strcmp(acp_status_name(ACP_E_TIMEOUT), "timed out"));
    return "";
}

static PyObject *use_all(PyObject *module, PyObject *args)
{
    int rank;
    (void)module;
    return PyArg_ParseTuple(args, "i", &rank) ? PyUnicode_FromString(try_all(rank)) : NULL;
}

static PyObject *await_word(PyObject *module, PyObject *args)
{
    unsigned long long ga;
    int status;
    (void)module;
    if (!PyArg_ParseTuple(args, "K", &ga))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = acp_wait_until8(ga, ACP_EQ, 12345, ACP_FOREVER);
    Py_END_ALLOW_THREADS
    return status == ACP_OK ? Py_NewRef(Py_None) : failure(status);
}

static PyObject *meet(PyObject *module, PyObject *args)
{
    int status = acp_sync();
    (void)module, (void)args;
    return status == ACP_OK ? Py_NewRef(Py_None) : failure(status);
}

static PyMethodDef methods[] = {
    {"total", total, METH_VARARGS, ""}, {"all", use_all, METH_VARARGS, ""}, {"wait", await_word, METH_VARARGS, ""},
    {"sync", meet, METH_NOARGS, ""}, {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "calls", .m_methods = methods, .m_size = -1};

PyMODINIT_FUNC PyInit_calls(void)
{
    return acp_import() ? NULL : PyModule_Create(&definition);
}
