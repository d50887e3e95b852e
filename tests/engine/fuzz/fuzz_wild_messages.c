/* A wild pointer writes into what messages and barriers of a rank need: its mailbox, pair rings, the lines that peers
 * fill, the entries in which members count, and what tells where the table of ranks is. The ranks go on sending, receiving and meeting: each call ends with a
 * result or an error. Nobody is killed by a signal, and no call goes on for ever.
 *
 * Each round is a process of its own: three ranks are threads of it, and one more thread writes. */
#include "fuzz.h"
#include "wild.h"
#include "cluster/cluster.h"
#include "core/engine_state.h"
#include "core/messages.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "messages/mailbox.h"

#include <sched.h>

#define ROUNDS 40u
#define RANKS 3u
#define CALLS 100u
#define SOON_NS ((int64_t)1000000)
#define MOST 100000u

static struct {
    struct cluster cluster;
    uint64_t seed;
    _Atomic bool over;
} scene;

/* While another thread has a mailbox; a lock that is written over gives up by itself. */
#define TRIES 2000u

static void drop(acp_lane *lane, acp_request *r)
{
    acp_envelope got;
    if (acp_request_wait(lane->engine, r, SOON_NS) != ACP_OK)
        for (uint32_t i = 0; i < TRIES && acp_request_cancel(lane, r) == ACP_E_BUSY; i++)
            sched_yield();
    acp_request_end(lane, r, &got);
}

static void post(acp_lane *lane, uint64_t *state, unsigned char *bytes)
{
    static const uint32_t sizes[] = {0, 8, 8, 8, 100, 100, 300, 5000, 40000, MOST};
    acp_envelope m = {.tag = (int64_t)(draw(state) % 2), .size = sizes[draw(state) % 10]};
    uint32_t to = (uint32_t)(draw(state) % RANKS);
    acp_request *r = NULL;
    int rc = ACP_E_BUSY;
    for (uint32_t i = 0; i < TRIES && rc == ACP_E_BUSY; i++)
        if ((rc = acp_send(lane, to, &m, bytes, &r)) == ACP_E_BUSY)
            sched_yield();
    if (rc == ACP_OK && r)
        drop(lane, r);
}

static acp_envelope any(uint64_t *state, uint64_t size)
{
    return (acp_envelope){.source = (int64_t)(draw(state) % (RANKS + 1)) - 1, .size = size,
                          .tag = (int64_t)(draw(state) % 3) - 1};
}

static void take(acp_lane *lane, uint64_t *state, unsigned char *bytes)
{
    bool gathers = draw(state) % 4 == 0;
    acp_envelope want = any(state, gathers ? UINT64_MAX : MOST);
    acp_request *r = NULL;
    int rc = ACP_E_BUSY;
    for (uint32_t i = 0; i < TRIES && rc == ACP_E_BUSY; i++)
        if ((rc = acp_receive(lane, &want, gathers ? NULL : bytes, &r)) == ACP_E_BUSY)
            sched_yield();
    if (rc != ACP_OK)
        return;
    acp_envelope got;
    if (acp_request_wait(lane->engine, r, SOON_NS) == ACP_OK && acp_request_look(r, &got) == ACP_OK && gathers)
        acp_request_data(lane, r);
    drop(lane, r);
}

static void glance(acp_lane *lane, uint64_t *state, unsigned char *bytes)
{
    acp_envelope want = any(state, MOST), found;
    acp_short brief;
    uint64_t taken = 0;
    acp_request *r;
    if (draw(state) % 2 && acp_short_look(lane->engine, &want, &brief))
        acp_short_take(&brief, bytes);
    else if (acp_probe_wait(lane->engine, &want, &found, draw(state) % 2 ? &taken : NULL, SOON_NS / 8) == ACP_OK &&
             taken && acp_receive_taken(lane, taken, bytes, MOST, &r) == ACP_OK)
        drop(lane, r);
}

static void call_on(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t state = scene.seed + 77 * rank;
    static __thread unsigned char out[MOST], in[MOST];
    (void)c;
    for (uint32_t i = 0; i < CALLS; i++) {
        uint64_t what = draw(&state) % 16;
        if (what < 7)
            post(lane, &state, out);
        else if (what < 12)
            take(lane, &state, in);
        else if (what < 14)
            glance(lane, &state, in);
        else
            acp_barrier(e, NULL, 0, what % 2, SOON_NS / 4);
    }
}

static void *write_wildly(void *unused)
{
    acp_engine *e = scene.cluster.engines[0];
    const struct heap *h = mailbox_heap(e, e->job.own);
    const struct mailbox *box = mailbox_of(h);
    uint64_t state = scene.seed ^ 0x5555, lines[2];
    for (uint32_t i = 0; i < 2; i++)
        lines[i] = box->rings[MAIL_USERS].rings[i + 1].lines;
#define PART(member) {(uint64_t)((const unsigned char *)&box->member - e->memory.base), sizeof box->member}
    const struct wild_part parts[] = {
        PART(section), {(uint64_t)((const unsigned char *)&box->bound - e->memory.base), 80}, PART(rings),
        PART(rings[MAIL_USERS].rings[1]), PART(rings[MAIL_USERS].rings[2]), PART(entries), PART(receives), PART(messages), PART(ended),
        {(uint64_t)((const unsigned char *)box - e->memory.base), sizeof *box},
        {e->memory.heap_position + lines[0], lines[0] ? 64 * 64 : 0},
        {e->memory.heap_position + lines[1], lines[1] ? 64 * RING_LINES : 0},
        {e->memory.heap_position + box->slabs, box->slabs ? MAIL_SLAB : 0},
        {DOORS_OFFSET + offsetof(struct doors, barriers), sizeof e->doors->barriers},
        {DOORS_OFFSET + offsetof(struct doors, lines), 3 * sizeof *e->doors->lines},
        {offsetof(struct control, door_fd) & ~(uint64_t)7, 24},
    };
    (void)unused;
    wild_write(e->memory.base, parts, sizeof parts / sizeof *parts, &state, &scene.over);
    return NULL;
}

static void round_of(uint64_t seed)
{
    pthread_t writer;
    scene.seed = seed;
    cluster_start(&scene.cluster, RANKS, 1, ACP_PATH_ANY, false);
    cluster_run(&scene.cluster, call_on);
    CHECK(pthread_create(&writer, NULL, write_wildly, NULL) == 0);
    cluster_run(&scene.cluster, call_on);
    scene.over = true;
    pthread_join(writer, NULL);
}

int main(void)
{
    return wild_rounds("wild_messages", ROUNDS, round_of);
}
