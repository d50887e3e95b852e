/* The end: ranks on nodes of their own meet for the last time and are gone at once. What the others
 * still wait for then is on links that nobody has used before, of which two may be opened at a time. */
#include "cluster.h"

static pthread_barrier_t gun;

static void end_at_once(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)rank;
    (void)lane;
    pthread_barrier_wait(&gun);
    CHECK(acp_barrier(e, NULL, 0, 2, 20000000000) == ACP_OK);
    acp_engine_leaving(e);
    acp_engine_close(e);
}

static void all_end_though_some_are_gone_already(uint32_t count)
{
    struct cluster c;
    pthread_barrier_init(&gun, NULL, count);
    for (int round = 0; round < 60; round++) {
        cluster_start(&c, count, count, ACP_PATH_ANY, CLUSTER_SHARED);
        cluster_run(&c, end_at_once);
        for (uint32_t i = 0; i < count; i++)
            acp_engine_free(c.engines[i]);
    }
    pthread_barrier_destroy(&gun);
}

int main(void)
{
    all_end_though_some_are_gone_already(2);
    all_end_though_some_are_gone_already(5);
    return 0;
}
