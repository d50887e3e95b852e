/* The calls of core/acp.h: each finds the engine of the process and a lane for its thread.
 *
 * Invariant: an engine that a call has found is not freed before the call has a reference to it. `finding`
 * counts the threads between the two, for which c_api_close waits. Start with c_api_functions. No lock. */
#include "python/c_api.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

static acp_engine *_Atomic current;
static _Atomic uint32_t finding;
static _Thread_local acp_fault last_fault;
_Thread_local acp_handle_t c_api_previous = 1;

void c_api_open(acp_engine *engine)
{
    atomic_store(&current, engine);
}

void c_api_close(void)
{
    atomic_store(&current, NULL);
    while (atomic_load(&finding))
        sched_yield();
}

/* The child has one thread, which is not finding. */
void c_api_forked(void)
{
    atomic_store(&current, NULL);
    atomic_store(&finding, 0);
}

static int api_failed(int status, acp_ga_t ga)
{
    last_fault = (acp_fault){.status = status, .error = status == ACP_E_SYSTEM ? errno : 0, .ga = ga,
                             .rank = acp_ga_rank(ga)};
    return status;
}

static int took(const acp_fault *fault)
{
    last_fault = *fault;
    return fault->status;
}

/* The engine, with a reference to it, or NULL without a job. */
static acp_engine *enter(void)
{
    atomic_fetch_add(&finding, 1);
    acp_engine *e = atomic_load(&current);
    if (e)
        acp_engine_enter(e);
    atomic_fetch_sub(&finding, 1);
    if (!e)
        api_failed(ACP_E_CLOSED, ACP_GA_NULL);
    return e;
}

/* A call under way: on a lane, which holds the engine. */
struct call {
    acp_engine *engine;
    acp_lane *lane;
};

/* Lanes are few and held briefly. */
static bool api_begin(struct call *c)
{
    do {
        atomic_fetch_add(&finding, 1);
        c->engine = atomic_load(&current);
        c->lane = c->engine ? acp_lane_take(c->engine) : NULL;
        atomic_fetch_sub(&finding, 1);
    } while (c->engine && !c->lane && !sched_yield());
    if (!c->lane)
        return api_failed(ACP_E_CLOSED, ACP_GA_NULL) == ACP_OK;
    acp_lane_previous(c->lane, c_api_previous);
    return true;
}

/* Gives the lane back and returns the status, with its fault kept. */
static int api_end(struct call *c, bool done)
{
    int status = done ? ACP_OK : took(acp_lane_fault(c->lane));
    acp_lane_give(c->lane);
    return status;
}

/* Ends a try; true: there was no room for the operation, and now there may be some. */
static bool api_again(struct call *c, bool done)
{
    if (api_end(c, done) != ACP_E_BUSY)
        return false;
    acp_engine *e = enter();
    if (!e)
        return false;
    int status = acp_wait_room(e, ACP_FOREVER);
    acp_engine_exit(e);
    return status == ACP_OK || api_failed(status, ACP_GA_NULL) == ACP_OK;
}

static acp_handle_t issued(acp_handle_t handle)
{
    if (handle)
        c_api_previous = handle;
    return handle;
}

static int first_failure(acp_engine *e, acp_handle_t upto, bool alone)
{
    acp_failure failure;
    uint64_t more;
    return acp_failures_take(e, upto, alone, &failure, 1, &more) ? took(&failure.fault) : ACP_OK;
}

/* The end of a call that returns when its operation is over: what that writes to is the caller's then. The
 * engine has been entered. */
static int api_finish(acp_engine *e, acp_handle_t handle)
{
    bool interrupted = false;
    int status;
    while ((status = acp_wait(e, handle, ACP_FOREVER)) == ACP_E_INTERRUPTED)
        interrupted = true;
    status = status == ACP_OK ? first_failure(e, handle, true) : api_failed(status, ACP_GA_NULL);
    acp_engine_exit(e);
    c_api_previous = 1;
    return status == ACP_OK && interrupted ? api_failed(ACP_E_INTERRUPTED, ACP_GA_NULL) : status;
}

/* Ends a try of a blocking call; true: another one. */
static bool blocked(struct call *c, int rc, acp_handle_t pending, int *status)
{
    if (rc != ACP_OK || !pending) {
        bool more = api_again(c, rc == ACP_OK);
        *status = rc == ACP_OK ? ACP_OK : last_fault.status;
        return more;
    }
    acp_engine_enter(c->engine); /* before the lane goes */
    api_end(c, true);
    *status = api_finish(c->engine, pending);
    return false;
}

static int api_rank(void)
{
    acp_engine *e = enter();
    if (!e)
        return -1;
    int rank = (int)acp_rank(e);
    acp_engine_exit(e);
    return rank;
}

static int api_procs(void)
{
    acp_engine *e = enter();
    if (!e)
        return -1;
    int procs = (int)acp_procs(e);
    acp_engine_exit(e);
    return procs;
}

static int api_colors(void)
{
    return (int)ACP_COLORS;
}

static int complete_in(acp_engine *e, acp_handle_t handle)
{
    if (acp_quiet(e))
        return ACP_OK;
    int status = acp_complete(e, handle, ACP_FOREVER);
    return status == ACP_OK ? first_failure(e, handle, false) : api_failed(status, ACP_GA_NULL);
}

static int api_complete(acp_handle_t handle)
{
    acp_engine *e = enter();
    if (!e)
        return ACP_E_CLOSED;
    int status = complete_in(e, handle == ACP_HANDLE_CONT ? c_api_previous : handle);
    acp_engine_exit(e);
    return status;
}

static int api_wait(acp_handle_t handle)
{
    if (handle == ACP_HANDLE_ALL)
        return api_complete(handle);
    acp_engine *e = enter();
    if (!e)
        return ACP_E_CLOSED;
    handle = handle == ACP_HANDLE_CONT ? c_api_previous : handle;
    int status = acp_wait(e, handle, ACP_FOREVER);
    status = status == ACP_OK ? first_failure(e, handle, true) : api_failed(status, ACP_GA_NULL);
    acp_engine_exit(e);
    return status;
}

static int api_inquire(acp_handle_t handle)
{
    acp_engine *e = enter();
    if (!e)
        return 0;
    int running = acp_running(e, handle == ACP_HANDLE_CONT ? c_api_previous : handle);
    acp_engine_exit(e);
    return running;
}

static int api_sync(void)
{
    acp_engine *e = enter();
    if (!e)
        return ACP_E_CLOSED;
    int status = complete_in(e, ACP_HANDLE_ALL);
    if (status == ACP_OK) {
        status = acp_barrier(e, NULL, 0, 0, ACP_FOREVER);
        if (status != ACP_OK) {
            api_failed(status, ACP_GA_NULL);
            last_fault.rank = acp_trouble_rank(e);
        }
    }
    acp_engine_exit(e);
    return status;
}

static bool is_rank(acp_engine *e, int rank)
{
    if (rank >= 0 && acp_known(e, (uint64_t)rank))
        return true;
    api_failed(ACP_E_RANK, ACP_GA_NULL);
    last_fault.rank = rank;
    return false;
}

static acp_ga_t api_query_starter_ga(int rank)
{
    acp_engine *e = enter();
    if (!e)
        return ACP_GA_NULL;
    acp_ga_t ga = is_rank(e, rank) ? acp_starter(e, (uint32_t)rank) : ACP_GA_NULL;
    acp_engine_exit(e);
    return ga;
}

/* A key is the address of the first byte. */
static acp_atkey_t api_register_memory(void *address, size_t size, int color)
{
    struct call c;
    acp_ga_t ga = ACP_GA_NULL;
    if (!api_begin(&c))
        return 0;
    int status = acp_segment_register(c.lane, address, size, (uint32_t)color, &ga);
    return api_end(&c, status == ACP_OK) == ACP_OK ? ga : 0;
}

static int api_unregister_memory(acp_atkey_t key)
{
    struct call c;
    uint64_t ticket;
    if (!api_begin(&c))
        return ACP_E_CLOSED;
    int status = acp_segment_retire(c.lane, key, 0, &ticket);
    acp_engine *e = c.engine;
    acp_engine_enter(e);
    status = api_end(&c, status == ACP_OK);
    if (status == ACP_OK) {
        bool interrupted = false;
        while ((status = acp_segment_quiet(e, ticket, ACP_FOREVER)) == ACP_E_INTERRUPTED)
            interrupted = true;
        if (status != ACP_OK || interrupted)
            status = api_failed(interrupted ? ACP_E_INTERRUPTED : status, key);
    }
    acp_engine_exit(e);
    return status;
}

static acp_ga_t api_query_ga(acp_atkey_t key, const void *address)
{
    struct call c;
    void *start = NULL;
    acp_ga_t ga = ACP_GA_NULL;
    if (!api_begin(&c))
        return ACP_GA_NULL;
    int status = acp_query_address(c.lane, key, 1, &start);
    if (status == ACP_OK) {
        ga = key + (acp_ga_t)((const char *)address - (const char *)start);
        status = (const char *)address < (const char *)start ? ACP_E_BOUNDS : acp_check(c.lane, ga, 1);
    }
    if (api_end(&c, status == ACP_OK || status == ACP_E_BOUNDS) == ACP_OK && status == ACP_OK)
        return ga;
    if (status == ACP_E_BOUNDS)
        api_failed(status, ga);
    return ACP_GA_NULL;
}

static void *api_query_address(acp_ga_t ga)
{
    struct call c;
    void *address = NULL;
    if (!api_begin(&c))
        return NULL;
    int status = acp_query_address(c.lane, ga, 1, &address);
    return api_end(&c, status == ACP_OK) == ACP_OK ? address : NULL;
}

static int api_query_rank(acp_ga_t ga)
{
    return (int)acp_ga_rank(ga);
}

static int api_query_color(acp_ga_t ga)
{
    return ga == ACP_GA_NULL ? -1 : (int)acp_ga_color(ga);
}

static acp_ga_t api_malloc(size_t size, int rank)
{
    struct call c;
    struct acp_call answer = {0};
    acp_handle_t pending;
    int rc, status;
    do {
        if (!api_begin(&c))
            return ACP_GA_NULL;
        if (!is_rank(c.engine, rank)) {
            api_end(&c, true);
            return ACP_GA_NULL;
        }
        rc = acp_malloc(c.lane, (uint32_t)rank, size, &answer, &pending);
    } while (blocked(&c, rc, pending, &status));
    return status == ACP_OK || status == ACP_E_INTERRUPTED ? answer.result[0] : ACP_GA_NULL;
}

static int api_free(acp_ga_t ga)
{
    struct call c;
    struct acp_call answer = {0};
    acp_handle_t pending;
    int rc, status;
    do {
        if (!api_begin(&c))
            return ACP_E_CLOSED;
        rc = acp_free(c.lane, ga, &answer, &pending);
    } while (blocked(&c, rc, pending, &status));
    while (status == ACP_OK && answer.result[0]) { /* the heap would give memory back to the system */
        if (!api_begin(&c))
            return ACP_E_CLOSED;
        rc = acp_heap_tidy(c.lane, (uint32_t)acp_ga_rank(ga), &answer, &pending);
        blocked(&c, rc, pending, &status);
    }
    return status;
}

static acp_handle_t api_copy(acp_ga_t dst, acp_ga_t src, size_t size, acp_handle_t order)
{
    struct call c;
    acp_handle_t handle;
    do {
        if (!api_begin(&c))
            return 0;
        handle = acp_copy(c.lane, dst, src, size, order);
    } while (api_again(&c, handle != 0));
    return issued(handle);
}

static acp_handle_t api_iput(acp_ga_t dst, const void *src, size_t size, acp_handle_t order)
{
    struct call c;
    acp_handle_t handle;
    do {
        if (!api_begin(&c))
            return 0;
        handle = acp_iput(c.lane, dst, src, size, order);
    } while (api_again(&c, handle != 0));
    return issued(handle);
}

static acp_handle_t api_iget(void *dst, acp_ga_t src, size_t size, acp_handle_t order)
{
    struct call c;
    acp_handle_t handle;
    do {
        if (!api_begin(&c))
            return 0;
        handle = acp_iget(c.lane, dst, src, size, order);
    } while (api_again(&c, handle != 0));
    return issued(handle);
}

static int api_put(acp_ga_t dst, const void *src, size_t size)
{
    struct call c;
    acp_handle_t pending;
    int rc, status;
    do {
        if (!api_begin(&c))
            return ACP_E_CLOSED;
        rc = acp_put(c.lane, dst, src, size, &pending);
    } while (blocked(&c, rc, pending, &status));
    return status;
}

static int api_get(void *dst, acp_ga_t src, size_t size)
{
    struct call c;
    acp_handle_t pending;
    int rc, status;
    do {
        if (!api_begin(&c))
            return ACP_E_CLOSED;
        rc = acp_get(c.lane, dst, src, size, &pending);
    } while (blocked(&c, rc, pending, &status));
    return status;
}

static acp_handle_t atomic(acp_kind kind, acp_ga_t dst, acp_ga_t src, uint64_t value, uint64_t old,
                           acp_handle_t order)
{
    struct call c;
    acp_handle_t handle;
    do {
        if (!api_begin(&c))
            return 0;
        handle = acp_atomic(c.lane, kind, dst, src, value, old, order);
    } while (api_again(&c, handle != 0));
    return issued(handle);
}

static int fetch(acp_kind kind, acp_ga_t ga, uint64_t value, uint64_t old, uint64_t *was)
{
    struct call c;
    acp_handle_t pending;
    int rc, status;
    do {
        if (!api_begin(&c))
            return ACP_E_CLOSED;
        rc = acp_fetch(c.lane, kind, ga, value, old, was, &pending);
    } while (blocked(&c, rc, pending, &status));
    return status;
}

#define CAS(width, type)                                                                                    \
    static acp_handle_t api_cas##width(acp_ga_t dst, acp_ga_t src, type old, type value, acp_handle_t order) \
    {                                                                                                       \
        return atomic(ACP_CAS##width, dst, src, value, old, order);                                         \
    }                                                                                                       \
    static int api_fetch_cas##width(acp_ga_t ga, type old, type value, type *was)                           \
    {                                                                                                       \
        uint64_t there = 0;                                                                                 \
        int status = fetch(ACP_CAS##width, ga, value, old, &there);                                         \
        *was = (type)there;                                                                                 \
        return status;                                                                                      \
    }
CAS(4, uint32_t)
CAS(8, uint64_t)

#define ATOMIC(name, kind, type)                                                                            \
    static acp_handle_t api_##name(acp_ga_t dst, acp_ga_t src, type value, acp_handle_t order)              \
    {                                                                                                       \
        return atomic(kind, dst, src, value, 0, order);                                                     \
    }                                                                                                       \
    static int api_fetch_##name(acp_ga_t ga, type value, type *was)                                         \
    {                                                                                                       \
        uint64_t there = 0;                                                                                 \
        int status = fetch(kind, ga, value, 0, &there);                                                     \
        *was = (type)there;                                                                                 \
        return status;                                                                                      \
    }
ATOMIC(swap4, ACP_SWAP4, uint32_t)
ATOMIC(swap8, ACP_SWAP8, uint64_t)
ATOMIC(add4, ACP_ADD4, uint32_t)
ATOMIC(add8, ACP_ADD8, uint64_t)
ATOMIC(xor4, ACP_XOR4, uint32_t)
ATOMIC(xor8, ACP_XOR8, uint64_t)
ATOMIC(or4, ACP_OR4, uint32_t)
ATOMIC(or8, ACP_OR8, uint64_t)
ATOMIC(and4, ACP_AND4, uint32_t)
ATOMIC(and8, ACP_AND8, uint64_t)

static int wait_until(acp_ga_t ga, uint32_t width, acp_compare compare, uint64_t value, int64_t timeout)
{
    struct call c;
    acp_word word;
    if (compare > ACP_GE)
        return api_failed(ACP_E_ARGUMENT, ga);
    if (!api_begin(&c))
        return ACP_E_CLOSED;
    acp_engine *e = c.engine;
    acp_engine_enter(e);
    int status = api_end(&c, acp_word_find(c.lane, ga, width, &word) == ACP_OK);
    if (status == ACP_OK) {
        status = acp_word_wait(e, &word, compare, value, false, NULL, -1, timeout);
        if (status != ACP_OK)
            api_failed(status, ga);
    }
    acp_engine_exit(e);
    return status;
}

static int api_wait_until4(acp_ga_t ga, acp_compare compare, uint32_t value, int64_t timeout)
{
    return wait_until(ga, 4, compare, value, timeout);
}

static int api_wait_until8(acp_ga_t ga, acp_compare compare, uint64_t value, int64_t timeout)
{
    return wait_until(ga, 8, compare, value, timeout);
}

static void api_last_fault(acp_fault *fault)
{
    *fault = last_fault;
}

#define WITH_FETCH(name) .name = api_##name, .fetch_##name = api_fetch_##name
const struct acp_api c_api_functions = {
    .version = ACP_API_VERSION,
    .rank = api_rank, .procs = api_procs, .sync = api_sync, .colors = api_colors,
    .query_starter_ga = api_query_starter_ga,
    .register_memory = api_register_memory, .unregister_memory = api_unregister_memory,
    .query_ga = api_query_ga, .query_address = api_query_address,
    .query_rank = api_query_rank, .query_color = api_query_color,
    .heap_malloc = api_malloc, .heap_free = api_free,
    .copy = api_copy, .iput = api_iput, .iget = api_iget, .put = api_put, .get = api_get,
    WITH_FETCH(cas4), WITH_FETCH(cas8), WITH_FETCH(swap4), WITH_FETCH(swap8), WITH_FETCH(add4), WITH_FETCH(add8),
    WITH_FETCH(xor4), WITH_FETCH(xor8), WITH_FETCH(or4), WITH_FETCH(or8), WITH_FETCH(and4), WITH_FETCH(and8),
    .complete = api_complete, .wait = api_wait, .inquire = api_inquire,
    .wait_until4 = api_wait_until4, .wait_until8 = api_wait_until8,
    .last_fault = api_last_fault, .status_name = acp_status_name,
};
