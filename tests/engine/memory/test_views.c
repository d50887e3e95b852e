/* What a process has mapped of the memory of others: it ends with a process that has ended and with regions that have
 * ended, and with nothing else. */
#include "cluster/cluster.h"
#include "core/state/peer.h"
#include "core/lane.h"
#include "memory/directory.h"
#include "peers/peer.h"

#include <sched.h>

#define LARGE ((uint64_t)17 << 20) /* it shares its view with no other */

static uint64_t word_at(acp_lane *lane, acp_ga_t ga)
{
    uint64_t word = 0;
    acp_handle_t pending;
    CHECK(acp_get(lane, &word, ga, 8, &pending) == ACP_OK && !pending);
    return word;
}

static acp_ga_t allocated(acp_engine *e, uint64_t size, uint64_t word)
{
    acp_ga_t ga;
    void *data;
    CHECK(acp_memory_alloc(acp_engine_lane(e), size, 0, &ga, &data) == ACP_OK);
    memcpy(data, &word, sizeof word);
    return ga;
}

static bool is_mapped(const struct peer *p, acp_ga_t ga)
{
    for (const struct view *v = p->memory.views; v; v = v->next)
        if (v->low <= acp_ga_offset(ga) && acp_ga_offset(ga) < v->high)
            return true;
    return false;
}

static void set_lost(acp_engine *e, struct peer *p, bool lost, bool handled, uint64_t shown)
{
    pthread_mutex_lock(&e->lock);
    p->lost = lost;
    p->loss_handled = handled;
    p->shown = shown;
    pthread_mutex_unlock(&e->lock);
}

/* Only the memory of the dead, whose end is known everywhere here, and of whom the program has no address. */
static void memory_of_the_dead(acp_engine *e, acp_lane *lane, const acp_ga_t *places)
{
    static const struct {
        bool lost, handled;
        uint64_t shown;
    } others[] = {{false, false, 0}, {true, false, 0}, {true, true, 1}, {false, true, 0}};
    struct peer *dead = peer_of_slot(e, 2), *other = peer_of_slot(e, 1);
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++) {
        for (uint64_t rank = 0; rank < 3; rank++)
            CHECK(word_at(lane, places[rank]) == rank + 1);
        CHECK(is_mapped(dead, places[2]) && is_mapped(other, places[1]));
        set_lost(e, other, others[i].lost, others[i].handled, others[i].shown);
        set_lost(e, dead, true, true, 0);
        while (dead->memory.views) /* not while another thread is inside */
            acp_engine_bury(e);
        CHECK(!dead->memory.view_count && is_mapped(other, places[1]));
        set_lost(e, other, false, false, 0);
        set_lost(e, dead, false, false, 0);
    }
}

struct fetch {
    acp_lane *lane;
    acp_ga_t ga;
};

static void *fetch(void *argument)
{
    const struct fetch *f = argument;
    CHECK(word_at(f->lane, f->ga) == 7);
    return NULL;
}

/* With many views those without a region go before another comes. The number of regions may be written over while a
 * call looks at them. */
static void views_without_regions(acp_engine *e, acp_lane *lane, acp_engine *owner)
{
    struct peer *p = peer_of_slot(e, 1);
    acp_ga_t ga[5]; /* the middle one has a view of its own */
    for (uint64_t i = 0; i < 5; i++)
        ga[i] = allocated(owner, i == 2 ? 8 : LARGE, i + 3);
    const acp_ga_t stays = ga[0], gone = ga[2];
    struct fetch f = {lane, ga[4]};
    CHECK(word_at(lane, gone) == 5 && word_at(lane, stays) == 3);
    for (uint32_t i = 1; i < 4; i++)
        CHECK(acp_segment_retire(acp_engine_lane(owner), ga[i], 0, NULL) == ACP_OK);
    uint32_t count = owner->control->directory_count;
    pthread_t thread;
    CHECK(is_mapped(p, gone) && is_mapped(p, stays) && !is_mapped(p, f.ga));
    lane->fault.low = 0;
    pthread_mutex_lock(&e->space);
    p->memory.view_count = 1000;
    CHECK(pthread_create(&thread, NULL, fetch, &f) == 0);
    while (*(volatile uint64_t *)&lane->fault.low != acp_ga_offset(f.ga)) /* it has found the region */
        sched_yield();
    owner->control->directory_count = UINT32_MAX;
    pthread_mutex_unlock(&e->space);
    pthread_join(thread, NULL);
    owner->control->directory_count = count;
    CHECK(is_mapped(p, f.ga) && is_mapped(p, stays) && !is_mapped(p, gone));
}

int main(void)
{
    struct cluster c;
    acp_ga_t places[3];
    cluster_start(&c, 3, 1, ACP_PATH_ANY, false);
    for (uint64_t rank = 0; rank < 3; rank++)
        places[rank] = allocated(c.engines[rank], 8, rank + 1);
    acp_engine *e = c.engines[0];
    memory_of_the_dead(e, acp_engine_lane(e), places);
#if !defined(__SANITIZE_THREAD__) /* the test looks at what the call does */
    views_without_regions(e, acp_engine_lane(e), c.engines[1]);
#endif
    cluster_stop(&c);
    return 0;
}
