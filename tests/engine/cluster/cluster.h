/* Several engines in one process, each a rank of one job: in a test every rank is a thread,
 * so that sanitizers see all of them. Each engine has its own mapping of every memory file,
 * or (`shared`) all use the owner's mapping, which the thread sanitizer needs. */
#ifndef ACP_TESTS_CLUSTER_H
#define ACP_TESTS_CLUSTER_H

#include "support/check.h"
#include "core/engine_state.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLUSTER_MOST 8
#define CLUSTER_PATIENCE_NS 30000000000u /* a thread without a processor for 5 s was taken for dead once */

#if defined(__SANITIZE_THREAD__)
#define CLUSTER_SHARED true
#else
#define CLUSTER_SHARED false
#endif

static uint32_t cluster_links; /* acp_protection of the engines to come */
static uint32_t cluster_services; /* a bit for each of them that is a service */

struct cluster {
    uint32_t count;
    acp_engine *engines[CLUSTER_MOST];
};

static inline void *cluster_map(void *context, const void *row, uint64_t offset, size_t length)
{
    struct cluster *c = context;
    (void)length;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->engines[i]->row.nonce == ((const struct row *)row)->nonce)
            return c->engines[i]->memory.base + offset;
    return NULL;
}

/* `nodes`: rank i is on node i % nodes. */
static inline void cluster_create(struct cluster *c, uint32_t count, uint32_t nodes,
                                  acp_path path, bool shared, uint64_t peer_timeout_ns,
                                  uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE])
{
    c->count = count;
    for (uint32_t i = 0; i < count; i++) {
        acp_config config = {.node = 1 + i % nodes, .memory_limit = 256 << 20,
                             .starter_size = 10240, .span = 1ull << 30, .path = path, .ptracer = 1,
                             .window_size = 4 << 20,
                             .peer_timeout_ns = peer_timeout_ns,
                             .map = shared ? cluster_map : NULL, .map_context = c};
        acp_fault fault;
        config.links = cluster_links;
        config.service = cluster_services >> i & 1;
        memset(config.secret, 7, sizeof config.secret);
        memset(config.job, 9, sizeof config.job);
        int rc = acp_engine_create(&config, &c->engines[i], &fault);
        if (rc)
            fprintf(stderr, "create: %s, errno %d\n", acp_status_name(rc), fault.error);
        CHECK(rc == ACP_OK);
        acp_engine_row(c->engines[i], rows[i]);
    }
}

static inline void cluster_start(struct cluster *c, uint32_t count, uint32_t nodes, acp_path path,
                                 bool shared)
{
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    cluster_create(c, count, nodes, path, shared, CLUSTER_PATIENCE_NS, rows);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(acp_table_add(c->engines[i], 0, rows[0], count) == ACP_OK);
        CHECK(acp_engine_join(c->engines[i], count, i) == ACP_OK);
    }
}

/* What each rank does, in a thread of its own. */
typedef void (*cluster_body)(struct cluster *, uint32_t rank, acp_engine *, acp_lane *);

struct cluster_rank {
    struct cluster *cluster;
    uint32_t rank;
    cluster_body body;
};

static void *cluster_thread(void *argument)
{
    struct cluster_rank *r = argument;
    acp_engine *e = r->cluster->engines[r->rank];
    r->body(r->cluster, r->rank, e, acp_engine_lane(e));
    return NULL;
}

static inline void cluster_run(struct cluster *c, cluster_body body)
{
    pthread_t threads[CLUSTER_MOST];
    struct cluster_rank ranks[CLUSTER_MOST];
    for (uint32_t i = 0; i < c->count; i++) {
        ranks[i] = (struct cluster_rank){c, i, body};
        CHECK(pthread_create(&threads[i], NULL, cluster_thread, &ranks[i]) == 0);
    }
    for (uint32_t i = 0; i < c->count; i++)
        pthread_join(threads[i], NULL);
}

static inline void cluster_run_each(struct cluster *c, const cluster_body *bodies, size_t count)
{
    for (size_t b = 0; b < count; b++)
        cluster_run(c, bodies[b]);
}

static void *cluster_closer(void *engine)
{
    CHECK(acp_barrier(engine, NULL, 0, 2, ACP_FOREVER) == ACP_OK);
    acp_engine_leaving(engine);
    return NULL;
}

static inline void cluster_stop(struct cluster *c)
{
    pthread_t threads[CLUSTER_MOST];
    for (uint32_t i = 0; i < c->count; i++)
        CHECK(pthread_create(&threads[i], NULL, cluster_closer, c->engines[i]) == 0);
    for (uint32_t i = 0; i < c->count; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_close(c->engines[i]);
    for (uint32_t i = 0; i < c->count; i++)
        CHECK(!c->engines[i]->control->filling); /* each message that was begun has its end */
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_free(c->engines[i]);
}

/* The ways that operations of three ranks may take: each road within a node, some or all of them apart. */
static const struct {
    acp_path path;
    uint32_t nodes;
} cluster_ways[] = {{ACP_PATH_ANY, 1}, {ACP_PATH_OWNER, 1}, {ACP_PATH_LINK, 1},
                    {ACP_PATH_ANY, 2}, {ACP_PATH_ANY, 3}};
#define CLUSTER_WAYS (sizeof cluster_ways / sizeof *cluster_ways)

static inline void cluster_start_by(struct cluster *c, uint32_t way)
{
    cluster_start(c, 3, cluster_ways[way].nodes, cluster_ways[way].path, CLUSTER_SHARED);
}

static inline void cluster_by_every_road(const cluster_body *bodies, size_t count)
{
    for (uint32_t i = 0; i < CLUSTER_WAYS; i++) {
        struct cluster c;
        cluster_start_by(&c, i);
        cluster_run_each(&c, bodies, count);
        cluster_stop(&c);
    }
}

#endif
