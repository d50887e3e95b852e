/* Collectives that do not go well: whoever depends on a member that leaves, or calls something else,
 * hears of it and of whom it was; a reset ends what is under way. */
#include "cluster/collecting.h"
#include "core/engine_state.h"

static _Atomic uint32_t stage;

/* Nothing of it is left in the own mailbox. */
static void nothing_posted(acp_engine *e)
{
    CHECK(mailbox_posted(box_of(e)) == 0);
}

/* Rank 0 ends it before all have come; they hear of it, in later rounds too. */
static void left_by_one(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t in[3] = {1, 2, 3}, out[3];
    int64_t who;
    (void)lane;
    for (uint32_t i = 0; i < 6; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        for (uint32_t round = 0; round < 3; round++)
            script_exchange(&s, rank, 8);
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        if (rank == 0) {
            acp_collective *one = i % 2 ? begin_released(e, &s, 100 + i) : begin(e, &s, 100 + i);
            if (i == 0)
                CHECK(acp_collective_run(one, 1000000) == ACP_E_TIMEOUT);
            acp_collective_end(one);
            meet(e);
        } else {
            meet(e);
            CHECK(carry(e, &s, 100 + i, i > 2, &who) == ACP_E_LEFT && who == 0);
        }
        nothing_posted(e);
        meet(e);
    }
}

/* Who never hears from the one that has left hears of it from those between. */
static void left_far_away(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t in = 1, out;
    int64_t who;
    (void)lane;
    for (uint32_t i = 0; i < 4; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        if (rank == 0) { /* it never has what it is to pass on */
            script_receive(&s, 2, OUT, 0, 8);
            script_await(&s);
        }
        script_relay(&s, rank, 0);
        s.buffers[IN] = &in;
        s.buffers[OUT] = &out;
        if (rank == 0) {
            acp_collective *one = begin_released(e, &s, 200 + i);
            CHECK(acp_collective_wait(one, 0) == ACP_E_TIMEOUT);
            acp_collective_end(one);
        } else {
            CHECK(carry(e, &s, 200 + i, i % 2, &who) == ACP_E_LEFT && who == 0);
        }
        nothing_posted(e);
        meet(e);
    }
}

/* Rank 1 calls something else, or gives another size: those that hear from it know, if nobody has told them before. */
static void another_call(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static atomic_uint compared; /* who heard of it first hand */
    uint64_t in[6] = {0}, out[6], theirs;
    int64_t who;
    (void)lane;
    for (uint32_t i = 0; i < 6; i++) {
        static const uint64_t others[] = {8, 16, 0};
        struct script s;
        uint64_t size = rank == 1 ? others[i % 3] : 8, note = rank == 1 && i % 3 == 0 ? 78 : 77;
        script_begin(&s, c->count, -1, 0);
        script_exchange(&s, rank, size);
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        acp_collective *one = begin_noted(e, &s, 300 + i, note);
        if (i > 2)
            acp_collective_release(one);
        int rc = i > 2 ? acp_collective_wait(one, ACP_FOREVER)
                       : acp_collective_run(one, ACP_FOREVER);
        CHECK(end_of(one, rc, &who, &theirs) == ACP_E_MISMATCH);
        CHECK(who >= 0 && who != rank);
        CHECK(!theirs || (rank == 1 ? theirs == 77 : who == 1 && theirs == (i % 3 == 0 ? 78u : 77u)));
        atomic_fetch_add(&compared, theirs != 0);
        nothing_posted(e);
        meet(e);
        CHECK(atomic_load(&compared) > i);
        meet(e);
    }
}

/* Each waits for the next one, and what it calls sends to that one, which asks for nothing of it: what has
 * come unasked tells. */
static void called_in_a_circle(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t in = 1, out, theirs;
    uint32_t right = (rank + 1) % c->count, left = (rank + c->count - 1) % c->count;
    int64_t who;
    (void)lane;
    for (uint32_t i = 0; i < 4; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        script_send(&s, right, IN, 0, 8);
        script_receive(&s, right, OUT, 0, 8);
        script_await(&s);
        s.buffers[IN] = &in;
        s.buffers[OUT] = &out;
        acp_collective *one = begin_noted(e, &s, 450 + i, 70 + rank);
        if (i % 2)
            acp_collective_release(one);
        int rc = i % 2 ? acp_collective_wait(one, ACP_FOREVER)
                       : acp_collective_run(one, ACP_FOREVER);
        CHECK(end_of(one, rc, &who, &theirs) == ACP_E_MISMATCH);
        CHECK(theirs ? who == left && theirs == 70 + left : who >= 0 && who != rank); /* or it was told */
        CHECK(box_of(e)->probing == 0);
        nothing_posted(e);
        meet(e);
    }
}

/* Rank 0 ends it while the mailbox of rank 1 has no room for what says so: rank 1 hears of it when it has. */
static void left_without_room(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t in[3] = {0}, out[3], kept = box_of(e)->bound;
    int64_t who;
    for (uint32_t i = 0; i < 4; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        script_exchange(&s, rank, 8);
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        if (rank == 1)
            set_bound(e, lane, 0);
        meet(e);
        if (rank == 0) {
            acp_collective *one = i % 2 ? begin_released(e, &s, 470 + i) : begin(e, &s, 470 + i);
            CHECK((i % 2 ? acp_collective_wait(one, 1000000) : acp_collective_run(one, 1000000)) ==
                  ACP_E_TIMEOUT);
            acp_collective_end(one);
        }
        meet(e);
        if (rank == 1)
            set_bound(e, lane, kept);
        if (rank != 0) {
            int rc = carry(e, &s, 470 + i, false, &who);
            CHECK(rc == ACP_E_LEFT ? who == 0 : rc == ACP_OK); /* what goes by link had come in time */
        }
        nothing_posted(e);
        meet(e);
    }
}

/* A rank without an executor for this fold, or without such a peer, ends it for all. */
static void impossible_for_one(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t in[3] = {0}, out[3];
    int64_t who;
    struct script s;
    (void)lane;
    script_begin(&s, c->count, -1, 0);
    if (rank == 0) {
        script_receive(&s, c->count + 5, OUT, 0, 8);
        script_await(&s);
    }
    script_exchange(&s, rank, 8);
    s.buffers[IN] = in;
    s.buffers[OUT] = out;
    int rc = carry(e, &s, 400, false, &who);
    CHECK(rank == 0 ? rc == ACP_E_RANK : rc == ACP_E_LEFT && who == 0);
    meet(e);
}

/* Afterwards all is as before. */
static void as_before(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)lane;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t in = rank + 1, out[CLUSTER_MOST] = {0};
        struct script s;
        script_begin(&s, c->count, -1, 0);
        script_ring(&s, rank, 8);
        s.buffers[IN] = &in;
        s.buffers[OUT] = out;
        CHECK(carry(e, &s, 900 + i, i % 2, NULL) == ACP_OK);
        for (uint32_t r = 0; r < c->count; r++)
            CHECK(out[r] == r + 1);
    }
    meet(e);
}

/* All that is under way ends; the next one goes as ever. */
static void reset(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { MANY = 4 };
    uint32_t slots[CLUSTER_MOST];
    struct script s[MANY];
    acp_collective *all[MANY];
    unsigned char *room = calloc(MANY, 2 * CLUSTER_MOST * 70000);
    (void)lane;
    for (uint32_t r = 0; r < c->count; r++)
        slots[r] = r;
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t size = i % 2 ? 70000 : 8;
        script_begin(&s[i], c->count, -1, 0);
        script_exchange(&s[i], rank, size);
        script_exchange(&s[i], rank, size);
        s[i].buffers[IN] = room + (size_t)i * 2 * CLUSTER_MOST * 70000;
        s[i].buffers[OUT] = (unsigned char *)s[i].buffers[IN] + CLUSTER_MOST * 70000;
        if (rank != 2) /* nobody can end it */
            all[i] = begin_released(e, &s[i], 500 + i);
    }
    meet(e);
    CHECK(acp_engine_reset(e, slots, c->count) == ACP_OK);
    meet(e);
    for (uint32_t i = 0; rank != 2 && i < MANY; i++) {
        CHECK(acp_collective_done(all[i]));
        CHECK(end_of(all[i], acp_collective_wait(all[i], 0), NULL, NULL) == ACP_E_CLOSED);
    }
    free(room);
    meet(e);
}

struct stuck {
    acp_engine *engine;
    struct script script;
    uint32_t context;
    uint64_t in[CLUSTER_MOST], out[CLUSTER_MOST];
};

static void *wait_for_reset(void *argument)
{
    struct stuck *w = argument;
    acp_collective *one = begin(w->engine, &w->script, w->context);
    atomic_fetch_add(&stage, 1);
    CHECK(end_of(one, acp_collective_run(one, ACP_FOREVER), NULL, NULL) == ACP_E_CLOSED);
    return NULL;
}

/* A thread waits in one that would go on to send: it hears of the reset, and nothing of it gets past that. */
static void reset_under_a_waiter(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t slots[CLUSTER_MOST];
    (void)lane;
    if (CLUSTER_SHARED) /* the sanitizer sees that waiters look at a mailbox that is just cleared */
        return;
    for (uint32_t r = 0; r < c->count; r++)
        slots[r] = r;
    for (uint32_t i = 0; i < 8; i++) {
        struct stuck w = {.engine = e, .context = 800 + i};
        pthread_t thread;
        script_begin(&w.script, c->count, -1, 0);
        script_receive(&w.script, (rank + 2) % c->count, OUT, 0, 8);
        script_await(&w.script);
        script_exchange(&w.script, rank, 8);
        w.script.buffers[IN] = w.in;
        w.script.buffers[OUT] = w.out;
        if (rank == 0)
            atomic_store(&stage, 0);
        meet(e);
        if (rank < 2)
            CHECK(pthread_create(&thread, NULL, wait_for_reset, &w) == 0);
        if (i % 4 > 1 && rank < 2)
            UNTIL(layout_doing(e->control) == ACP_DOING_COLLECTIVE);
        UNTIL(atomic_load(&stage) == 2);
        meet(e);
        CHECK(acp_engine_reset(e, slots, c->count) == ACP_OK);
        if (rank < 2)
            pthread_join(thread, NULL);
        meet(e);
        CHECK(mailbox_kept(box_of(e)) == 0 && mailbox_posted(box_of(e)) == 0 && box_of(e)->probing == 0);
        meet(e);
    }
}

/* The last rank is in finalize without the call. The rank that waits for it knows, and so does each that waits for a
 * rank behind that one: no member says that it was left after an error. */
static void one_in_finalize(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t in = 1, out;
    int64_t who;
    uint32_t last = c->count - 1;
    struct script s;
    (void)lane;
    script_begin(&s, c->count, -1, 0);
    script_relay(&s, rank, last);
    s.buffers[IN] = &in;
    s.buffers[OUT] = &out;
    if (rank == last)
        UNTIL(acp_engine_leaving(e));
    else
        CHECK(carry(e, &s, 500, rank % 2, &who) == ACP_E_FINALIZING && who == last);
}

static const cluster_body bodies[] = {left_by_one, left_far_away, another_call, called_in_a_circle,
                                      left_without_room, impossible_for_one,
                                      as_before, reset, reset_under_a_waiter, as_before, one_in_finalize};

int main(void)
{
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    return 0;
}
