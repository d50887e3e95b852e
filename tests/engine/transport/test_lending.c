/* Parts of long transfers go out from where they lie, without a copy that is kept: what their owner
 * does to that memory meanwhile, and the network to the wire, has no other effect than on a copy. */
#include "cluster/relayed.h"
#include "core/engine_state.h"
#include "transport/link.h"

#include <sys/mman.h>

#define RANKS 3u
#define SIZE ((uint64_t)24 << 20)
#define REGION ((uint64_t)8 << 20)

enum { CALLER, SOURCE, TARGET };

static struct proxy proxies[RANKS];

#define WORDS (SIZE / sizeof(uint64_t))

struct spot {
    acp_ga_t ga;
    void *bytes;
};

static struct spot room(struct cluster *c, uint32_t rank)
{
    struct spot p;
    CHECK(acp_memory_alloc(acp_engine_lane(c->engines[rank]), SIZE, 0, &p.ga, &p.bytes) == ACP_OK);
    return p;
}

static acp_handle_t begin_copy(struct cluster *c, acp_ga_t dst, acp_ga_t src, uint64_t size)
{
    acp_handle_t h = acp_copy(acp_engine_lane(c->engines[CALLER]), dst, src, size, ACP_HANDLE_NULL);
    CHECK(h != 0);
    return h;
}

/* The status of a copy when it has ended. */
static int end_copy(struct cluster *c, acp_handle_t h)
{
    acp_failure failure = {.fault.status = ACP_OK};
    uint64_t more;
    CHECK(acp_wait(c->engines[CALLER], h, ACP_FOREVER) == ACP_OK);
    acp_failures_take(c->engines[CALLER], h, false, &failure, 1, &more);
    return failure.fault.status;
}

/* Of the network so far. */
static uint64_t faults(void)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        n += proxies[i].cuts + proxies[i].flips;
    return n;
}

static uint64_t first_state(uint64_t i)
{
    return i * 0x9e3779b97f4a7c15u;
}

static void what_does_not_change_arrives(struct cluster *c)
{
    struct spot from = room(c, SOURCE), to = room(c, TARGET);
    uint64_t *source = from.bytes, *there = to.bytes;
    for (uint64_t turn = 0; turn < 4; turn++) {
        uint64_t before = faults();
        relayed_spoil(c, proxies, turn % 2 ? 5000000 : 0, turn / 2 ? 6000000 : 0);
        for (uint64_t i = 0; i < WORDS; i++)
            source[i] = first_state(i + turn);
        CHECK(end_copy(c, begin_copy(c, to.ga, from.ga, SIZE)) == ACP_OK);
        relayed_spoil(c, proxies, 0, 0);
        for (uint64_t i = 0; i < WORDS; i++)
            CHECK(there[i] == first_state(i + turn));
        CHECK(turn == 0 || faults() > before);
    }
    acp_memory_drop(acp_engine_lane(c->engines[SOURCE]), from.bytes, SIZE);
    acp_memory_drop(acp_engine_lane(c->engines[TARGET]), to.bytes, SIZE);
}

struct restless {
    unsigned char *bytes;
    _Atomic bool enough;
};

/* All bytes are of one state or of the other. That others read them meanwhile is what is tested. */
__attribute__((no_sanitize("thread"))) static void *turn_over(void *argument)
{
    struct restless *r = argument;
    while (!r->enough)
        for (uint64_t i = 0; i < WORDS && !r->enough; i++) {
            volatile uint64_t *word = (volatile uint64_t *)(void *)r->bytes + i;
            *word = ~*word;
        }
    return NULL;
}

static void what_changes_meanwhile_arrives_in_one_of_its_states(struct cluster *c)
{
    struct spot from = room(c, SOURCE), to = room(c, TARGET);
    uint64_t *source = from.bytes;
    const unsigned char *there = to.bytes;
    for (uint64_t i = 0; i < WORDS; i++)
        source[i] = first_state(i);
    for (int spoilt = 0; spoilt < 2; spoilt++) {
        struct restless r = {.bytes = from.bytes};
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, turn_over, &r) == 0);
        relayed_spoil(c, proxies, spoilt ? 5000000 : 0, 0);
        memset(to.bytes, 0, SIZE);
        int status = end_copy(c, begin_copy(c, to.ga, from.ga, SIZE));
        relayed_spoil(c, proxies, 0, 0);
        r.enough = true;
        pthread_join(thread, NULL);
        CHECK(status == ACP_OK);
        for (uint64_t i = 0; i < WORDS; i++) {
            uint64_t state = first_state(i);
            const unsigned char *was = (const unsigned char *)&state;
            for (uint64_t k = 0; k < sizeof state; k++) {
                unsigned char is = there[sizeof state * i + k];
                CHECK(is == was[k] || (is ^ was[k]) == 0xff);
            }
        }
    }
    acp_memory_drop(acp_engine_lane(c->engines[SOURCE]), from.bytes, SIZE);
    acp_memory_drop(acp_engine_lane(c->engines[TARGET]), to.bytes, SIZE);
}

/* Waits until as much of the copy is on its way from the source as may be, or cannot begin its way. */
static void await_the_jam(struct cluster *c, acp_handle_t copy)
{
    acp_engine *e = c->engines[SOURCE];
    for (bool jam = false; !jam;) {
        pthread_mutex_lock(&e->lock);
        for (struct link *l = e->tcp.links; l; l = l->next)
            jam |= l->out.held >= HELD_MOST / 2 ||
                   (l->state == LINK_CALLING && l->out.unsent >= UNSENT_MOST);
        pthread_mutex_unlock(&e->lock);
        CHECK(acp_wait(c->engines[CALLER], copy, 1000000) == ACP_E_TIMEOUT);
    }
}

/* Registered memory that is gone: what is on its way goes on, the rest of the copy fails. */
static void what_ends_meanwhile_is_not_touched_again(struct cluster *c, uint64_t cut_mean)
{
    acp_lane *owner = acp_engine_lane(c->engines[SOURCE]);
    struct spot to = room(c, TARGET);
    unsigned char *there = to.bytes;
    acp_ga_t ga;
    uint64_t ticket, arrived = 0;
    unsigned char *region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                 -1, 0);
    CHECK(region != MAP_FAILED);
    memset(region, 5, REGION);
    memset(there, 0, REGION);
    CHECK(acp_segment_register(owner, region, REGION, 0, &ga) == ACP_OK);
    pthread_mutex_lock(&c->engines[TARGET]->lock); /* it takes nothing */
    relayed_spoil(c, proxies, cut_mean, 0);
    acp_handle_t h = begin_copy(c, to.ga, ga, REGION);
    await_the_jam(c, h);
    CHECK(acp_segment_retire(owner, ga, 0, &ticket) == ACP_OK);
    CHECK(acp_segment_quiet(c->engines[SOURCE], ticket, ACP_FOREVER) == ACP_OK);
    memset(region, 6, REGION);
    CHECK(munmap(region, REGION) == 0);
    pthread_mutex_unlock(&c->engines[TARGET]->lock);
    CHECK(end_copy(c, h) == ACP_E_UNREGISTERED);
    relayed_spoil(c, proxies, 0, 0);
    for (uint64_t i = 0; i < REGION; i++) {
        CHECK(there[i] == 0 || there[i] == 5);
        arrived += there[i] == 5;
    }
    CHECK(arrived >= UNSENT_MOST && arrived < REGION);
    acp_memory_drop(acp_engine_lane(c->engines[TARGET]), to.bytes, SIZE);
}

int main(void)
{
    struct cluster c;
    relayed_start(&c, proxies, RANKS, 20000000000u, NULL);
    what_does_not_change_arrives(&c);
    what_changes_meanwhile_arrives_in_one_of_its_states(&c);
    what_ends_meanwhile_is_not_touched_again(&c, 0);
    uint64_t before = faults();
    for (int turn = 0; turn < 20 && faults() < before + 4; turn++)
        what_ends_meanwhile_is_not_touched_again(&c, 500000);
    CHECK(faults() >= before + 4);
    relayed_stop(&c, proxies);
    return 0;
}
