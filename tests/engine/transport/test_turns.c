/* The bytes of long transfers take turns with all else: between two of them the leader looks at other connections,
 * also where the answers of many gets could follow one another. */
#include "cluster/stranger.h"
#include "core/state/peer.h"
#include "progress/progress.h"
#include "transport/link.h"

#include <pthread.h>
#include <sched.h>

#define PART FRAME_PAYLOAD_MOST
#define PARTS_HELD (HELD_MOST / PART)
#define PARTS (PARTS_HELD + 32u)

/* Opens a link for long transfers to rank 0. */
static struct link *come_in(struct town *t, struct stranger *s, uint32_t slot)
{
    acp_engine *e = t->engines[0];
    struct message m = {.kind = ACP_SESSION, .flags = true, .id = 1, .b = LINK_LONG};
    struct frame f;
    stranger_enter(t, s, slot);
    CHECK(stranger_say(s, &m, 0, NULL, 0) && stranger_hear(s, &f) && f.message.kind == ACP_SESSION);
    pthread_mutex_lock(&e->lock);
    struct link *link = e->tcp.links;
    while (link && link->peer->slot != s->slot)
        link = link->next;
    CHECK(link && link_is_long(link));
    pthread_mutex_unlock(&e->lock);
    return link;
}

/* Bytes of answers that have gone out. */
static size_t sent(acp_engine *e, const struct link *link)
{
    pthread_mutex_lock(&e->lock);
    size_t size = link->out.next * frame_bytes(PART) - link->out.unsent;
    pthread_mutex_unlock(&e->lock);
    return size;
}

struct hearer {
    struct stranger s;
    const unsigned char *there;
    _Atomic bool done;
};

static void *hear_parts(void *argument)
{
    struct hearer *h = argument;
    struct frame f;
    struct message ack = {.kind = ACP_ACK};
    for (uint32_t heard = 0; heard < PARTS; heard++) {
        if (heard == PARTS_HELD) /* the engine has stopped, and now has room for all others at once */
            CHECK(stranger_say(&h->s, &ack, h->s.heard, NULL, 0));
        do
            CHECK(stranger_hear(&h->s, &f));
        while (f.message.kind != ACP_REPLY);
        CHECK(f.message.status == ACP_OK && f.size == PART && f.message.id - 1 < PARTS);
        CHECK(memcmp(f.payload, h->there + (f.message.id - 1) * PART, PART) == 0);
    }
    h->done = true;
    return NULL;
}

static void answers_of_gets_take_turns(struct town *t, acp_ga_t ga, const unsigned char *there, bool brief)
{
    static struct hearer h;
    pthread_t thread;
    acp_engine *e = t->engines[0];
    struct link *link = come_in(t, &h.s, 2 + brief);
    h.there = there;
    h.done = false;
    while (!progress_leader_try(e))
        sched_yield();
    for (uint32_t i = 0; i < PARTS; i++) {
        struct message get = {.kind = ACP_GET, .id = i + 1, .src = ga + i * PART, .a = PART};
        CHECK(stranger_say(&h.s, &get, 0, NULL, 0));
    }
    CHECK(pthread_create(&thread, NULL, hear_parts, &h) == 0);
    for (size_t before = sent(e, link), now; !h.done; before = now) {
        e->tcp.brief_turns = brief ? BRIEF_TURNS : 0; /* written by the leader alone */
        progress_poll(e);
        now = sent(e, link);
        /* One turn as the connection is writable, one behind a new answer. */
        CHECK(now - before <= 2 * (brief ? BRIEF_TURN_BYTES : TURN_BYTES));
    }
    pthread_join(thread, NULL);
    progress_leader_release(e);
    stranger_leave(&h.s);
}

int main(void)
{
    struct town t;
    acp_ga_t ga;
    void *there;
    town_start(&t, 30000000000u);
    CHECK(acp_memory_alloc(acp_engine_lane(t.engines[0]), PARTS * PART, 0, &ga, &there) == ACP_OK);
    for (uint32_t i = 0; i < PARTS * PART; i++)
        ((unsigned char *)there)[i] = (unsigned char)(i * 31 + (i >> 16));
    answers_of_gets_take_turns(&t, ga, there, true);
    answers_of_gets_take_turns(&t, ga, there, false);
    town_check_served(&t, 0);
    town_stop(&t);
    return 0;
}
