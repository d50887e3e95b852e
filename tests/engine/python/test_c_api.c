/* The calls for programs in C: by more threads than there are lanes, with memory of their own, and while the job
 * ends under them. */
#include "cluster/cluster.h"
#include "python/c_api.h"

#include <sched.h>

enum { THREADS = 7, TIMES = 400 };

static const struct acp_api *const api = &c_api_functions;

static void *calls(void *argument)
{
    uintptr_t number = (uintptr_t)argument;
    acp_ga_t base = api->query_starter_ga(1), own = base + 64 * (1 + number);
    for (uint64_t i = 0; i < TIMES; i++) {
        uint64_t was, back = 0;
        CHECK(api->fetch_add8(base, 1, &was) == ACP_OK);
        CHECK(api->put(own, &was, 8) == ACP_OK && api->get(&back, own, 8) == ACP_OK && back == was);
        acp_handle_t h = api->copy(own + 8, own, 8, ACP_HANDLE_NULL);
        h = api->add8(ACP_GA_NULL, own + 8, number, ACP_HANDLE_CONT);
        h = api->iget(&back, own + 8, 8, ACP_HANDLE_CONT);
        CHECK(h && api->wait(h) == ACP_OK && back == was + number);
        if (i % 16 == 0) {
            acp_ga_t block = api->heap_malloc(100 * number, 1);
            CHECK(block && api->heap_free(block) == ACP_OK);
        }
        CHECK(api->put(base + (UINT64_C(1) << 39), &was, 8) == ACP_E_UNREGISTERED);
        acp_fault fault; /* this thread's, whatever the others' calls find */
        api->last_fault(&fault);
        CHECK(fault.ga == base + (UINT64_C(1) << 39) && fault.rank == 1);
    }
    return NULL;
}

static void threads_call_side_by_side(uint32_t nodes, acp_path path)
{
    struct cluster c;
    pthread_t threads[THREADS];
    uint64_t sum = 0;
    cluster_start(&c, 2, nodes, path, CLUSTER_SHARED);
    c_api_open(c.engines[0]);
    CHECK(api->rank() == 0 && api->procs() == 2);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, calls, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(api->complete(ACP_HANDLE_ALL) == ACP_OK);
    CHECK(api->get(&sum, api->query_starter_ga(1), 8) == ACP_OK && sum == THREADS * TIMES);
    c_api_close();
    CHECK(api->rank() == -1 && api->put(1, &sum, 8) == ACP_E_CLOSED);
    cluster_stop(&c);
}

static int fault_of(acp_ga_t ga)
{
    acp_fault fault;
    api->last_fault(&fault);
    return ga == ACP_GA_NULL ? fault.status : ACP_OK;
}

static void registered_memory_is_found_by_its_key(void)
{
    struct cluster c;
    static unsigned char bytes[100];
    cluster_start(&c, 1, 1, ACP_PATH_ANY, false);
    c_api_open(c.engines[0]);
    acp_atkey_t key = api->register_memory(bytes + 10, 50, 0);
    CHECK(key && api->query_address(key + 7) == bytes + 17);
    for (uint64_t i = 0; i < 50; i++)
        CHECK(api->query_ga(key, bytes + 10 + i) == key + i);
    CHECK(fault_of(api->query_ga(key, bytes + 60)) == ACP_E_UNREGISTERED);
    CHECK(fault_of(api->query_ga(key + (UINT64_C(1) << 38), bytes)) != ACP_OK);
    CHECK(fault_of(api->query_ga(key, bytes + 9)) == ACP_E_BOUNDS);
    CHECK(api->query_ga(key, bytes + 10) == key && api->unregister_memory(key) == ACP_OK);
    CHECK(fault_of(api->query_ga(key, bytes + 10)) == ACP_E_UNREGISTERED);
    c_api_close();
    cluster_stop(&c);
}

static uint64_t committed(acp_engine *e)
{
    acp_memory_statistics s;
    acp_memory_statistics_get(e, &s);
    return s.committed;
}

static void memory_of_the_heap_goes_back(void)
{
    enum { LONG = 64 << 20 };
    struct cluster c;
    cluster_start(&c, 1, 1, ACP_PATH_ANY, false);
    c_api_open(c.engines[0]);
    acp_ga_t ga = api->heap_malloc(LONG, 0);
    uint64_t before = committed(c.engines[0]);
    CHECK(ga && api->heap_free(ga) == ACP_OK && committed(c.engines[0]) < before - LONG / 2);
    c_api_close();
    cluster_stop(&c);
}

static _Atomic uint32_t inside;

static void *until_closed(void *argument)
{
    uint64_t was;
    int status;
    bool waits = argument != NULL;
    acp_ga_t starter = api->query_starter_ga(0);
    atomic_fetch_add(&inside, 1);
    if (waits)
        CHECK(api->wait_until8(starter + 8, ACP_EQ, 1, ACP_FOREVER) == ACP_E_CLOSED);
    while ((status = api->fetch_add8(starter, 1, &was)) == ACP_OK)
        ;
    CHECK(status == ACP_E_CLOSED || status == ACP_E_UNREGISTERED);
    while (api->sync() != ACP_E_CLOSED)
        sched_yield();
    return NULL;
}

static void a_job_ends_under_its_callers(void)
{
    for (int round = 0; round < 30; round++) {
        struct cluster c;
        pthread_t threads[THREADS];
        atomic_store(&inside, 0);
        cluster_start(&c, 1, 1, ACP_PATH_ANY, false);
        c_api_open(c.engines[0]);
        for (uintptr_t i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, until_closed, (void *)(i % 2)) == 0);
        while (atomic_load(&inside) < THREADS)
            sched_yield();
        c_api_close();
        acp_engine_close(c.engines[0]);
        acp_engine_free(c.engines[0]);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
}

int main(void)
{
    threads_call_side_by_side(1, ACP_PATH_ANY);
    threads_call_side_by_side(1, ACP_PATH_OWNER);
    threads_call_side_by_side(2, ACP_PATH_ANY);
    registered_memory_is_found_by_its_key();
    memory_of_the_heap_goes_back();
    a_job_ends_under_its_callers();
    return 0;
}
