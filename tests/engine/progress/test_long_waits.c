/* A wait that has lasted a minute gives its notice, once, whatever it waits for: also one that is many short ones. The
 * clock of this program runs a hundred times as fast as others'. */
#include "cluster/collecting.h"
#include "core/upcalls.h"

#define RATE 100u

uint64_t __real_linux_now_ns(void);
uint64_t __wrap_linux_now_ns(void);

static struct cluster cluster;
static _Atomic uint32_t notices;

uint64_t __wrap_linux_now_ns(void)
{
    static _Atomic uint64_t first;
    uint64_t now = __real_linux_now_ns(), none = 0;
    atomic_compare_exchange_strong(&first, &none, now);
    return atomic_load(&first) + (now - atomic_load(&first)) * RATE;
}

static int hear(void *context, int reason)
{
    (void)context;
    return reason == ACP_TICK_LONG ? (int)atomic_fetch_add(&notices, 1) + 1 : 0;
}

/* The handler raises when it has its notice, and that ends the wait. */
static void gave_one(int rc)
{
    CHECK(rc == ACP_E_INTERRUPTED && atomic_exchange(&notices, 0) == 1);
}

static void waits_for_messages(acp_engine *e, acp_lane *lane)
{
    uint64_t word;
    acp_envelope want = {.source = 1, .tag = 3}, found;
    acp_request *r = ireceive(lane, 1, 3, &word, 8);
    gave_one(acp_request_wait(e, r, ACP_FOREVER));
    gave_one(acp_wait_any(e, &r, 1, NULL, 0, NULL, 0, ACP_FOREVER));
    CHECK(AGAIN(acp_request_cancel(lane, r)) == ACP_OK && acp_request_end(lane, r, NULL) == ACP_E_CANCELLED);
    gave_one(acp_probe_wait(e, &want, &found, NULL, ACP_FOREVER));
}

static void waits_for_members(acp_engine *e)
{
    uint64_t key[2] = {1, 2}, value[2], in[2] = {0}, out[2] = {0};
    gave_one(acp_barrier(e, NULL, 0, 0, ACP_FOREVER));
    gave_one(acp_lookup(e, key, value, ACP_FOREVER));
    for (uint32_t i = 0; i < 3; i++) {
        struct script s;
        script_begin(&s, 2, -1, 0);
        script_exchange(&s, 0, 8);
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        acp_collective *c = begin(e, &s, 100 + i);
        if (i)
            acp_collective_release(c);
        gave_one(i == 0   ? acp_collective_run(c, ACP_FOREVER)
                 : i == 1 ? acp_collective_wait(c, ACP_FOREVER)
                          : acp_wait_any(e, NULL, 0, &c, 1, NULL, 0, ACP_FOREVER));
        acp_collective_end(c);
    }
}

/* Then without any watch left. */
static void waits_for_a_word(acp_engine *e, acp_lane *lane)
{
    acp_word word;
    CHECK(acp_word_find(lane, acp_starter(e, 0), 8, &word) == ACP_OK);
    gave_one(acp_word_wait(e, &word, ACP_EQ, 1, false, NULL, -1, ACP_FOREVER));
    for (uint32_t i = 0; i < WATCHES; i++)
        e->doors->watches[i].high = 1;
    gave_one(acp_word_wait(e, &word, ACP_EQ, 1, false, NULL, -1, ACP_FOREVER));
    for (uint32_t i = 0; i < WATCHES; i++)
        e->doors->watches[i].high = 0;
}

int main(void)
{
    cluster_start(&cluster, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = cluster.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    e->config.tick = hear;
    waits_for_messages(e, lane);
    waits_for_members(e);
    waits_for_a_word(e, lane);
    e->config.tick = NULL;
    cluster_stop(&cluster);
    return 0;
}
