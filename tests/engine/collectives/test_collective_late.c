/* What comes of a collective that has ended: nothing of it stays in a mailbox, nor with who sent it. */
#include "cluster/collecting.h"
#include "core/engine_state.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"
#include "progress/progress.h"
#include "progress/reactor.h"

static uint64_t used(acp_engine *e, acp_lane *lane)
{
    acp_heap_statistics now;
    struct acp_call call;
    acp_handle_t pending;
    CHECK(AGAIN(acp_heap_look(lane, (uint32_t)acp_rank(e), &now, &call, &pending)) == ACP_OK);
    return now.used;
}

static void mailbox_is_empty(acp_engine *e)
{
    struct mailbox *box = box_of(e);
    UNTIL(mailbox_kept(box) == 0 &&
          __atomic_load_n(&box->bytes, __ATOMIC_ACQUIRE) == 0);
    CHECK(mailbox_posted(box) == 0);
    meet(e);
}

static void hears_or_has_all(acp_engine *e, struct script *s, uint32_t context)
{
    int64_t who;
    int rc = carry(e, s, context, context % 2, &who);
    CHECK(rc == ACP_OK || (rc == ACP_E_LEFT && who == 0));
}

/* Rank 0 has left before the others come: what they send it then is dropped, whatever its size. */
static void left_early(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane, bool full)
{
    static const uint64_t sizes[] = {8, 3000, 70000, 1 << 20};
    unsigned char *in = calloc(c->count, 1 << 20), *out = calloc(c->count, 1 << 20);
    uint64_t before = used(e, lane), kept = box_of(e)->bound;
    uint32_t first = full ? 1200 : 1000;
    if (full && rank == 0)
        set_bound(e, lane, 4096);
    for (uint32_t i = 0; i < 12; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        if (rank) { /* to rank 0 it comes before they know */
            script_send(&s, 0, IN, 0, sizes[i % 4]);
            script_await(&s);
        }
        script_exchange(&s, rank, 8);
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        meet(e);
        if (rank == 0) {
            acp_collective *one = begin(e, &s, first + i);
            if (i % 3)
                CHECK(acp_collective_run(one, 0) == ACP_E_TIMEOUT);
            acp_collective_end(one);
        }
        meet(e);
        if (rank)
hears_or_has_all(e, &s, first + i);
        meet(e);
        mailbox_is_empty(e);
    }
    meet(e);
    if (full && rank == 0)
        set_bound(e, lane, kept);
    UNTIL(used(e, lane) <= before + (192 << 10)); /* slabs stay, and rings */
    free(in);
    free(out);
    meet(e);
}

static void left_early_with_room(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    left_early(c, rank, e, lane, false);
}

static void left_early_without_room(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    left_early(c, rank, e, lane, true);
}

/* What has come before it ended is dropped with it. */
static void left_late(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t before = used(e, lane);
    unsigned char *in = calloc(c->count, 70000), *out = calloc(c->count, 70000);
    for (uint32_t i = 0; i < 8; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        if (rank == 1)
            script_send(&s, 0, IN, 0, i % 2 ? 70000 : 8);
        else if (rank == 0)
            script_receive(&s, 2, OUT, 0, 8); /* which has nothing for it */
        script_await(&s);
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        if (rank == 1)
            CHECK(carry(e, &s, 1100 + i, false, NULL) == ACP_OK);
        if (rank == 0) {
            acp_collective *one = begin(e, &s, 1100 + i);
            CHECK(acp_collective_run(one, 0) == ACP_E_TIMEOUT);
            UNTIL(mailbox_kept(box_of(e)) || i % 4 < 2);
            acp_collective_end(one);
        }
        meet(e);
        mailbox_is_empty(e);
    }
    UNTIL(used(e, lane) <= before + (192 << 10));
    free(in);
    free(out);
    meet(e);
}

/* Words of a member that fails reach those, too, that have all they need: they do not pile up there. */
static void told_in_vain(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { CALLS = 2000 };
    (void)lane;
    for (uint32_t i = 0; i < CALLS; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        if (rank == 2) /* it has nothing to say to rank 0, but that it has left */
            script_send(&s, 0, IN, 0, 0);
        else if (rank == 1)
            script_send(&s, 0, IN, 0, 0);
        else
            script_receive(&s, 1, OUT, 0, 0);
        script_await(&s);
        if (rank == 2)
            acp_collective_end(begin(e, &s, 2000 + i));
        else
            CHECK(carry(e, &s, 2000 + i, false, NULL) == ACP_OK);
        if (i % 16 != 15)
            continue;
        UNTIL(!e->mail.losses); /* the mailbox knows the last few hundred, and who leads may get no processor */
        meet(e);
    }
    meet(e);
    CHECK(mailbox_kept(box_of(e)) < CALLS / 4);
    meet(e);
}

/* Messages of users that have no receive yet stay where they are. */
static void users_keep_theirs(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { MANY = 20 };
    unsigned char room[3000];
    for (uint32_t i = 0; rank == 1 && i < MANY; i++) {
        paint(room, sizeof room, i);
        post_message(lane, 0, i, room, i % 2 ? sizeof room : 40);
    }
    for (uint32_t i = 0; i < 8; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        script_exchange(&s, rank, 0);
        meet(e);
        if (rank == 0)
            acp_collective_end(begin(e, &s, 3000 + i));
        meet(e);
        if (rank)
            CHECK(carry(e, &s, 3000 + i, false, NULL) == ACP_E_LEFT);
        meet(e);
    }
    UNTIL(mailbox_kept(box_of(e)) == (rank ? 0 : MANY));
    for (uint32_t i = 0; rank == 0 && i < MANY; i++) {
        uint64_t size = take_message(lane, 1, i, room, sizeof room).size;
        CHECK(size == (i % 2 ? sizeof room : 40) && painted(room, size, i));
    }
    meet(e);
}

static const cluster_body bodies[] = {left_early_with_room, left_early_without_room, left_late,
                                      told_in_vain, users_keep_theirs};

enum { LATE = 4000 };

/* A message comes when its context has ended, and who leads is rung for it, but does not look yet. */
static struct heap *bring_late(struct cluster *c)
{
    static unsigned char bytes[70000];
    const acp_envelope late = {.context = LATE, .size = sizeof bytes};
    acp_request *request;
    cluster_start(c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c->engines[0];
    acp_lane *sender = acp_engine_lane(c->engines[1]);
    struct heap *h = mailbox_heap(e, e->job.own);
    acp_context_ends(e, LATE);
    UNTIL(!e->mail.losses && progress_leader_try(e));
    reactor_arm(e, false);
    CHECK(AGAIN(acp_send(sender, 0, &late, bytes, &request)) == ACP_OK);
    send_end_of(sender, request);
    CHECK(mailbox_kept(mailbox_of(h)) == 1);
    return h;
}

static void goes(struct cluster *c, struct heap *h)
{
    progress_leader_release(c->engines[0]);
    UNTIL(mailbox_kept(mailbox_of(h)) == 0);
    cluster_stop(c);
}

/* Who leads finds the mailbox taken, and is rung for no more: it comes again by itself. */
static void taken_just_then(void)
{
    enum { LOOKS = 3000 }; /* all that it has been rung for is seen */
    struct cluster c;
    struct hold hold;
    struct heap *h = bring_late(&c);
    acp_engine *e = c.engines[0];
    CHECK(transaction_enter(&hold, acp_engine_lane(e), &mailbox_of(h)->section, h, ACP_FOREVER) == ACP_OK);
    for (uint32_t i = 0; i < LOOKS; i++)
        progress_poll(e);
    transaction_leave(&hold);
    goes(&c, h);
}

/* What a caller waits for has come, too: it leads no more. */
static void rung_for_as_it_stops_leading(void)
{
    struct cluster c;
    struct heap *h = bring_late(&c);
    bool interrupted;
    CHECK(progress_sleep(c.engines[0], ACP_FOREVER, &interrupted));
    goes(&c, h);
}

int main(void)
{
    taken_just_then();
    rung_for_as_it_stops_leading();
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    return 0;
}
