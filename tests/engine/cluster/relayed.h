/* A cluster on a bad network: every engine reaches the others through a proxy in front of each. */
#ifndef ACP_TESTS_RELAYED_H
#define ACP_TESTS_RELAYED_H

#include "cluster/cluster.h"
#include "cluster/proxy.h"
#include "core/engine_state.h"

/* Every rank is a node of its own. */
static inline void relayed_start(struct cluster *c, struct proxy *proxies, uint32_t ranks,
                                 uint64_t peer_timeout_ns, const acp_method *methods)
{
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    cluster_create(c, ranks, ranks, ACP_PATH_LINK, CLUSTER_SHARED, peer_timeout_ns, rows);
    for (uint32_t i = 0; i < ranks; i++) {
        c->engines[i]->config.methods = methods;
        proxy_start(&proxies[i], ((struct row *)(void *)rows[i])->port, i + 1);
    }
    for (uint32_t i = 0; i < ranks; i++) {
        uint8_t seen[CLUSTER_MOST][ACP_ROW_SIZE];
        memcpy(seen, rows, sizeof seen);
        for (uint32_t other = 0; other < ranks; other++)
            if (other != i)
                ((struct row *)(void *)seen[other])->port = proxies[other].port;
        CHECK(acp_table_add(c->engines[i], 0, seen[0], ranks) == ACP_OK);
        CHECK(acp_engine_join(c->engines[i], ranks, i) == ACP_OK);
    }
}

static inline uint64_t *words_of(acp_engine *e, uint32_t rank)
{
    void *address;
    CHECK(acp_query_address(acp_engine_lane(e), acp_starter(e, rank), 8, &address) == ACP_OK);
    return address;
}

static inline void relayed_spoil(const struct cluster *c, struct proxy *proxies,
                                 uint64_t cut_mean, uint64_t flip_mean)
{
    for (uint32_t i = 0; i < c->count; i++) {
        proxies[i].flip_mean = flip_mean;
        proxies[i].cut_mean = cut_mean;
    }
}

static inline void relayed_stall(const struct cluster *c, struct proxy *proxies, bool on)
{
    proxies_stall(proxies, c->count, on);
}

/* All that there is ends now. */
static inline void relayed_cut(const struct cluster *c, struct proxy *proxies)
{
    for (uint32_t i = 0; i < c->count; i++)
        proxies[i].cut_all = true;
    for (uint32_t i = 0; i < c->count; i++)
        while (proxies[i].cut_all)
            usleep(1000);
}

/* The side towards `rank` ends, the side of who has called it stays open and swallows all. */
static inline void relayed_half_cut(struct proxy *proxies, uint32_t rank)
{
    proxies[rank].half_cut = true;
    while (proxies[rank].half_cut)
        usleep(1000);
}

static inline void relayed_stop(struct cluster *c, struct proxy *proxies)
{
    relayed_spoil(c, proxies, 0, 0);
    cluster_stop(c);
    for (uint32_t i = 0; i < c->count; i++)
        proxy_stop(&proxies[i]);
}

#endif
