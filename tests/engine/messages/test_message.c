/* Messages between ranks, by each way that their bytes can go. */
#include "cluster/mailing.h"
#include "core/engine_state.h"
#include "messages/deliver.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/request.h"
#include "peers/peer.h"
#include "progress/doorbell.h"

static const uint64_t sizes[] = {0, 1, 8, 255, 256, 257, 4096, 65537, 1 << 20, (3 << 20) + 5};
#define SIZES (sizeof sizes / sizeof *sizes)

/* Each to the next one, which asks for it later, or exactly then, by name or not. */
static void around(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t right = (rank + 1) % c->count, left = (rank + c->count - 1) % c->count;
    struct pages p = pages_take();
    (void)e;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < SIZES; i++) {
            paint(p.mine, sizes[i], rank + round);
            post_message(lane, right, i, p.mine, sizes[i]);
            acp_envelope got =
                take_message(lane, round == 1 ? ACP_ANY : (int64_t)left,
                             round == 2 ? ACP_ANY : (int64_t)i, p.theirs, LARGE);
            CHECK(got.size == sizes[i] && got.source == left && got.tag == (int64_t)i);
            CHECK(painted(p.theirs, sizes[i], left + round));
        }
    }
    pages_give(p);
}

/* Into private memory, global memory, and none, of a receiver that computes. */
static void asked_for_before(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t right = (rank + 1) % c->count, left = (rank + c->count - 1) % c->count;
    struct pages p = pages_take();
    acp_ga_t ga;
    void *global;
    CHECK(acp_memory_alloc(lane, LARGE, 0, &ga, &global) == ACP_OK);
    for (uint32_t i = 0; i < 3 * SIZES; i++) {
        uint64_t size = sizes[i / 3];
        unsigned char *to = i % 3 == 0 ? p.theirs : i % 3 == 1 ? global : NULL;
        acp_request *r = ireceive(lane, left, i, to, to ? LARGE : UINT64_MAX);
        meet(e);
        paint(p.mine, size, rank + i);
        post_message(lane, right, i, p.mine, size);
        UNTIL(acp_request_done(r));
        if (!to)
            CHECK(painted(acp_request_data(lane, r), size, left + i));
        CHECK(receive_end_of(lane, r).size == size);
        CHECK(!to || painted(to, size, left + i));
    }
    acp_memory_drop(lane, global, LARGE);
    pages_give(p);
}

/* The receiver sleeps; what is long is copied out behind who writes it. */
static void waited_for(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct pages p = pages_take();
    for (uint32_t i = 0; i < SIZES; i++) {
        if (rank == 0) {
            acp_envelope got = take_message(lane, 1, i, p.theirs, LARGE);
            CHECK(got.size == sizes[i] && painted(p.theirs, got.size, i));
        } else if (rank == 1) {
            const struct control *there = c->engines[0]->control;
            UNTIL(there->asleep && layout_doing(there) == ACP_DOING_RECEIVE);
            paint(p.mine, sizes[i], i);
            post_message(lane, 0, i, p.mine, sizes[i]);
        }
        meet(e);
    }
    pages_give(p);
}

/* The first that was sent is the first that is received, whatever takes it: per tag, and over all. */
static void in_order(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { MANY = 600 };
    static const uint64_t mixed[] = {8, 300, 70000, 16};
    unsigned char *room = malloc(70000);
    uint64_t next[3] = {0, 0, 0}, word;
    if (rank > 0) {
        memset(room, 0, 70000);
        for (uint64_t i = 0; i < MANY; i++) {
            memcpy(room, &i, 8);
            post_message(lane, 0, i % 5, room, mixed[i % 4]);
        }
    }
    for (uint32_t i = 0; rank == 0 && i < MANY * (c->count - 1); i++) {
        acp_envelope got = take_message(lane, ACP_ANY, ACP_ANY, room, 70000);
        memcpy(&word, room, 8);
        CHECK(word == next[got.source]++ && got.tag == (int64_t)(word % 5));
    }
    meet(e);
    free(room);
}

/* Posted receives are taken in their order, with a name or without; kept messages by tag. */
static void by_name(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t words[4] = {0}, word;
    acp_request *r[4];
    (void)c;
    if (rank == 0) {
        r[0] = ireceive(lane, ACP_ANY, 1, &words[0], 8);
        r[1] = ireceive(lane, 1, 1, &words[1], 8);
        r[2] = ireceive(lane, 1, ACP_ANY, &words[2], 8);
        r[3] = ireceive(lane, 1, 1, &words[3], 8);
    }
    meet(e);
    for (word = 1; rank == 1 && word <= 4; word++)
        post_message(lane, 0, 1, &word, 8);
    for (word = 1; rank == 1 && word <= 500; word++)
        post_message(lane, 0, (int64_t)word + 1, &word, 8);
    meet(e);
    for (uint32_t i = 0; rank == 0 && i < 4; i++) {
        receive_end_of(lane, r[i]);
        CHECK(words[i] == i + 1);
    }
    for (uint64_t i = 500; rank == 0 && i >= 1; i--) {
        take_message(lane, 1, (int64_t)i + 1, &word, 8);
        CHECK(word == i);
    }
    CHECK(mailbox_kept(box_of(e)) == 0 && mailbox_posted(box_of(e)) == 0 && box_of(e)->bytes == 0);
    meet(e);
}

static void to_itself(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct pages p = pages_take();
    (void)c;
    (void)e;
    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        uint64_t size = sizes[i / 2];
        acp_request *r = i % 2 ? ireceive(lane, rank, i, p.theirs, LARGE) : NULL;
        paint(p.mine, size, i);
        post_message(lane, rank, i, p.mine, size);
        r = r ? r : ireceive(lane, ACP_ANY, i, p.theirs, LARGE);
        CHECK(receive_end_of(lane, r).size == size && painted(p.theirs, size, i));
    }
    pages_give(p);
}

/* What fits arrives, and the receive says that there was more. */
static void longer_than_the_room(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct pages p = pages_take();
    (void)c;
    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        uint64_t size = sizes[i / 2], room = size / 2;
        acp_request *r = NULL;
        acp_envelope got;
        memset(p.theirs, 0xee, LARGE);
        if (rank == 0 && i % 2)
            r = ireceive(lane, 1, 3, p.theirs, room);
        meet(e);
        paint(p.mine, size, i);
        if (rank == 1)
            post_message(lane, 0, 3, p.mine, size);
        if (rank == 0) {
            r = r ? r : ireceive(lane, 1, 3, p.theirs, room);
            CHECK(acp_request_wait(e, r, ACP_FOREVER) == ACP_OK);
            CHECK(acp_request_end(lane, r, &got) == (size ? ACP_E_TRUNCATED : ACP_OK));
            CHECK(got.size == size && painted(p.theirs, room, i) && p.theirs[room] == 0xee);
        }
    }
    meet(e);
    pages_give(p);
}

static void cancelled(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t words[3] = {0}, word = 5;
    (void)c;
    if (rank == 0) {
        acp_request *first = ireceive(lane, 1, 1, &words[0], 8);
        acp_request *second = ireceive(lane, ACP_ANY, 1, &words[1], 8);
        acp_request *third = ireceive(lane, 1, 1, &words[2], 8);
        CHECK(AGAIN(acp_request_cancel(lane, first)) == ACP_OK && acp_request_done(first));
        CHECK(AGAIN(acp_request_cancel(lane, first)) == ACP_E_HANDLE);
        CHECK(acp_request_end(lane, first, NULL) == ACP_E_CANCELLED);
        meet(e);
        receive_end_of(lane, second);
        CHECK(words[0] == 0 && words[1] == 5 && words[2] == 0);
        CHECK(acp_request_wait(e, third, 0) == ACP_E_TIMEOUT);
        CHECK(acp_request_end(lane, third, NULL) == ACP_E_CANCELLED);
        acp_request *late = ireceive(lane, 1, 2, &words[0], 8);
        CHECK(AGAIN(acp_request_wait(e, late, ACP_FOREVER)) == ACP_OK);
        CHECK(AGAIN(acp_request_cancel(lane, late)) == ACP_E_HANDLE);
        receive_end_of(lane, late);
        CHECK(mailbox_posted(box_of(e)) == 0);
    } else {
        meet(e);
        if (rank == 1) {
            post_message(lane, 0, 1, &word, 8);
            post_message(lane, 0, 2, &word, 8);
        }
    }
    meet(e);
}

static void *wait_for_it(void *request)
{
    acp_request *r = request;
    CHECK(acp_request_wait(r->engine, r, ACP_FOREVER) == ACP_OK);
    return NULL;
}

/* Who waits looks at the entry of a receive until it ends. */
static void cancelled_by_another_thread(struct cluster *c, uint32_t rank, acp_engine *e,
                                        acp_lane *lane)
{
    (void)c;
    for (uint64_t i = 0, word; i < 300 && rank == 0; i++) {
        acp_request *r = ireceive(lane, 1, 1, &word, 8);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, wait_for_it, r) == 0);
        for (uint64_t pause = 0; pause < i % 16; pause++)
            sched_yield();
        CHECK(AGAIN(acp_request_cancel(lane, r)) == ACP_OK);
        pthread_join(thread, NULL);
        CHECK(acp_request_end(lane, r, NULL) == ACP_E_CANCELLED);
    }
    CHECK(mailbox_posted(box_of(e)) == 0);
    meet(e);
}

static void probed(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct pages p = pages_take();
    acp_envelope want = {.source = ACP_ANY, .tag = ACP_ANY}, found;
    uint64_t taken;
    acp_request *r;
    if (rank == 0) {
        CHECK(AGAIN(acp_probe(lane, &want, &found, NULL)) == ACP_E_HANDLE);
        CHECK(acp_probe_wait(e, &want, &found, NULL, 0) == ACP_E_TIMEOUT);
        meet(e);
        for (uint32_t i = 0; i < 2 * SIZES; i++) {
            want.source = i % 2 ? 1 : ACP_ANY;
            CHECK(acp_probe_wait(e, &want, &found, NULL, ACP_FOREVER) == ACP_OK);
            CHECK(found.source == 1 && found.tag == i && found.size == sizes[i / 2]);
            CHECK(AGAIN(acp_probe(lane, &want, &found, &taken)) == ACP_OK && found.tag == i);
            CHECK(AGAIN(acp_receive_taken(lane, taken, i % 2 ? p.theirs : NULL,
                                          i % 2 ? LARGE : UINT64_MAX, &r)) == ACP_OK);
            CHECK(r->peer == peer_of_slot(e, 1)); /* who waits for its bytes waits for that rank */
            acp_request *twice;
            CHECK(acp_receive_taken(lane, taken, NULL, UINT64_MAX, &twice) == ACP_E_HANDLE);
            CHECK(acp_request_wait(e, r, ACP_FOREVER) == ACP_OK);
            if (i % 2 == 0)
                CHECK(painted(acp_request_data(lane, r), found.size, i));
            CHECK(receive_end_of(lane, r).size == found.size);
            CHECK(i % 2 == 0 || painted(p.theirs, found.size, i));
        }
        CHECK(AGAIN(acp_probe(lane, &want, &found, NULL)) == ACP_E_HANDLE);
    } else {
        meet(e);
        for (uint32_t i = 0; rank == 1 && i < 2 * SIZES; i++) {
            const struct control *there = c->engines[0]->control;
            if (i == 4)
                UNTIL(there->asleep && layout_doing(there) == ACP_DOING_PROBE);
            paint(p.mine, sizes[i / 2], i);
            post_message(lane, 0, i, p.mine, sizes[i / 2]);
        }
    }
    meet(e);
    pages_give(p);
}

static void any_of_many(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { MANY = 20 };
    uint64_t words[MANY], seen = 0;
    acp_request *r[MANY];
    uint32_t index;
    (void)c;
    for (uint32_t i = 0; rank == 0 && i < MANY; i++)
        r[i] = ireceive(lane, 1, i, &words[i], 8);
    meet(e);
    for (uint64_t i = 0; rank == 1 && i < MANY; i++) {
        uint64_t word = (i * 7) % MANY;
        post_message(lane, 0, (int64_t)word, &word, 8);
    }
    for (uint32_t left = MANY; rank == 0 && left; left--) {
        CHECK(acp_wait_any(e, r, left, NULL, 0, NULL, 0, ACP_FOREVER) == ACP_OK);
        for (index = 0; index < left && !acp_request_done(r[index]); index++)
            continue;
        CHECK(index < left);
        acp_envelope got = receive_end_of(lane, r[index]);
        CHECK(words[got.tag] == (uint64_t)got.tag && !(seen >> got.tag & 1));
        seen |= 1ull << got.tag;
        r[index] = r[left - 1];
    }
    meet(e);
}

/* Rank 2 is lost: what waits for it ends, and what it was bringing; all else gets on. */
static void lost(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t words[4] = {0}, word = 9;
    unsigned char *bytes = calloc(1, LARGE);
    if (rank == 2) { /* it dies with a long message under way */
        acp_envelope envelope = {.source = 2, .tag = 8, .size = LARGE};
        struct landing landing;
        CHECK(AGAIN(match_arrive(lane, peer_of_slot(e, 0), &envelope, bytes, false, 2,
                                 &landing)) == ACP_OK && landing.open);
        meet(e);
    } else if (rank == 1) {
        meet(e);
        const struct control *there = c->engines[0]->control;
        UNTIL(there->asleep && layout_doing(there) == ACP_DOING_RECEIVE);
        peer_mark_lost(c->engines[0], peer_of_slot(c->engines[0], 2));
        post_message(lane, 0, 3, &word, 8);
    } else {
        acp_request *r[] = {
            ireceive(lane, 2, 1, &words[0], 8), ireceive(lane, 2, ACP_ANY, &words[1], 8),
            ireceive(lane, ACP_ANY, 5, &words[2], 8), ireceive(lane, 1, 3, &words[3], 8)};
        meet(e);
        for (uint32_t i = 0; i < 3; i++) {
            CHECK(acp_request_wait(e, r[i], ACP_FOREVER) == ACP_OK);
            CHECK(AGAIN(acp_request_end(lane, r[i], NULL)) == ACP_E_LOST);
            CHECK(acp_lane_fault(lane)->rank == (i < 2 ? 2 : -1));
        }
        receive_end_of(lane, r[3]);
        CHECK(words[3] == 9);
        UNTIL(mailbox_kept(box_of(e)) == 0);
        acp_envelope envelope = {.tag = 1, .size = 8}, found;
        acp_request *sent;
        CHECK(acp_send(lane, 2, &envelope, &word, &sent) == ACP_E_LOST);
        CHECK(AGAIN(acp_probe_wait(e, &(acp_envelope){.source = 2, .tag = 1}, &found, NULL,
                                   ACP_FOREVER)) == ACP_E_LOST);
        acp_refresh(e); /* the others may send, but not that one */
        CHECK(acp_probe_wait(e, &(acp_envelope){.source = 2, .tag = 1}, &found, NULL,
                             ACP_FOREVER) == ACP_E_LOST);
        CHECK(acp_probe_wait(e, &(acp_envelope){.source = ACP_ANY, .tag = 1}, &found, NULL,
                             0) == ACP_E_TIMEOUT);
    }
    free(bytes);
}

/* Who waits while another thread resets writes nothing where the entry was: that is somebody else's then. */
static void reset_by_another_thread(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { THEIRS = 12345 };
    uint64_t word;
    pthread_t thread;
    (void)c;
    if (rank == 0) {
        acp_request *r = ireceive(lane, 1, 77, &word, 8);
        uint64_t *attention = &r->entry->attention;
        CHECK(pthread_create(&thread, NULL, wait_for_it, r) == 0);
        UNTIL(__atomic_load_n(attention, __ATOMIC_RELAXED) != ATTENTION_NONE && e->control->asleep &&
              layout_doing(e->control) == ACP_DOING_RECEIVE);
        e->mail.era++;
        __atomic_store_n(attention, THEIRS, __ATOMIC_RELAXED);
        doorbell_kick(e);
        pthread_join(thread, NULL);
        CHECK(__atomic_load_n(attention, __ATOMIC_RELAXED) == THEIRS);
        e->mail.era--;
        CHECK(AGAIN(acp_request_end(lane, r, NULL)) == ACP_E_CANCELLED);
    }
    meet(e);
}

/* Who gives up is not rung for when its message comes. */
static void waited_in_vain(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t word = 5;
    (void)c;
    if (rank == 0) {
        acp_request *r = ireceive(lane, 1, 78, &word, 8);
        CHECK(acp_request_wait(e, r, 50000000) == ACP_E_TIMEOUT);
        CHECK(r->entry->attention == ATTENTION_NONE);
        meet(e);
        receive_end_of(lane, r);
        CHECK(word == 6);
    } else {
        meet(e);
        word++;
        if (rank == 1)
            post_message(lane, 0, 78, &word, 8);
    }
    meet(e);
}

static uint64_t kept_by(acp_engine *e)
{
    return mailbox_kept(box_of(e));
}

/* Nobody will ever ask for it, and nobody need: its owner forgets it. */
static void bytes_that_do_not_come(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const acp_envelope envelope = {.source = rank, .tag = 79, .size = 100000};
    uint64_t kept = kept_by(e);
    struct landing l;
    (void)c;
    CHECK(AGAIN(match_arrive(lane, e->job.own, &envelope, NULL, false, e->self, &l)) == ACP_OK && l.open);
    CHECK(kept_by(e) == kept + 1);
    deliver_failed(lane, &l, ACP_E_LOST);
    UNTIL(kept_by(e) == kept);
    meet(e);
}

static const cluster_body bodies[] = {
    around, asked_for_before, waited_for, in_order, by_name, to_itself, longer_than_the_room,
    cancelled, cancelled_by_another_thread, probed, any_of_many, reset_by_another_thread,
    waited_in_vain, bytes_that_do_not_come,
};

int main(void)
{
    static const acp_path paths[] = {ACP_PATH_ANY, ACP_PATH_OWNER};
    for (uint32_t i = 0; i < 2; i++) {
        struct cluster c;
        cluster_start(&c, 3, 1, paths[i], CLUSTER_SHARED);
        cluster_run_each(&c, bodies, sizeof bodies / sizeof *bodies);
        cluster_run(&c, lost);
        for (uint32_t e = 0; e < 3; e++) /* a rank is lost: they do not meet again */
            acp_engine_close(c.engines[e]);
        for (uint32_t e = 0; e < 3; e++)
            acp_engine_free(c.engines[e]);
    }
    return 0;
}
