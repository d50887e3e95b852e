/* Messages past the bound stay in their sender's heap: what a receiver that dies has not pulled goes
 * back, what others have still to pull does not. */
#include "cluster/mailing.h"
#include "core/engine_state.h"
#include "core/method.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/flow.h"
#include "messages/mailbox.h"
#include "messages/purge.h"
#include "messages/request.h"
#include "peers/peer.h"
#include "progress/doorbell.h"
#include "progress/progress.h"

#include <unistd.h>

enum { MANY = 100, SIZE = 30000 };

static acp_heap_statistics heap(acp_lane *lane)
{
    acp_heap_statistics s;
    struct acp_call call;
    acp_handle_t pending;
    CHECK(AGAIN(acp_heap_look(lane, acp_rank(lane->engine), &s, &call, &pending)) == ACP_OK);
    return s;
}

static uint64_t used(acp_lane *lane)
{
    return heap(lane).used;
}

/* What is sent by link may still be on its way to the heap when the send is over. */
static bool all_sent(acp_engine *e)
{
    bool all = true;
    pthread_mutex_lock(&e->lock);
    for (const struct flow *one = e->mail.flows; one; one = one->next)
        all &= !one->outgoing;
    pthread_mutex_unlock(&e->lock);
    return all;
}

/* Whether the envelope is here of a message from rank 0 with this tag. */
static bool arrived(acp_lane *lane, uint32_t tag)
{
    acp_envelope want = {.source = 0, .tag = tag}, found;
    return AGAIN(acp_probe(lane, &want, &found, NULL)) == ACP_OK;
}

static atomic_uint ended;

/* They meet, and nobody is on the way out when rank 0 goes on: it has bad news for that. */
static void meet_before_a_loss(struct cluster *c, uint32_t rank, acp_engine *e)
{
    static atomic_uint met;
    meet(e);
    if (rank)
        atomic_fetch_add(&met, 1);
    else
        UNTIL(atomic_load(&met) == c->count - 1);
    if (!rank)
        atomic_store(&met, 0);
}

/* Rank 0 sends as much to each; both pull a part, then rank 1 dies for it. */
static void a_receiver_dies(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    unsigned char *room = malloc(2 * MANY * SIZE);
    uint64_t word = 0;
    acp_request *none;
    if (rank) {
        post_message(lane, 0, 1, &word, 8); /* rank 0 has entries, and a heap */
        box_of(e)->bound = 400 << 10; /* and an eighth: the envelopes of all of them */
    } else {
        take_message(lane, 1, 1, &word, 8);
        take_message(lane, 2, 1, &word, 8);
    }
    meet(e);
    uint64_t before = rank ? 0 : used(lane);
    for (uint32_t i = 0; rank == 0 && i < 2 * MANY; i++) {
        paint(room + i * SIZE, SIZE, i);
        post_message(lane, 1 + i % 2, i / 2, room + i * SIZE, SIZE);
    }
    UNTIL(all_sent(e));
    for (uint32_t i = 0; rank && i < MANY; i++)
        UNTIL(arrived(lane, i));
    meet(e);
    acp_heap_statistics full = heap(lane);
    uint64_t all = rank ? 0 : full.used - before;
    meet(e);
    for (uint32_t i = 0; rank && i < MANY / 3; i++) /* from the end: what stayed with rank 0 */
        CHECK(take_message(lane, 0, MANY - 1 - i, room, SIZE).size == SIZE);
    meet_before_a_loss(c, rank, e);
    if (rank == 0) {
        UNTIL(heap(lane).blocks == full.blocks - 2 * (MANY / 3)); /* given back after the receive */
        uint64_t some = used(lane) - before;
        CHECK(all > MANY * (uint64_t)SIZE && some < all - MANY / 2 * (uint64_t)SIZE);
        peer_mark_lost(e, peer_of_slot(e, 1));
        UNTIL(used(lane) - before <= some / 2);
        CHECK(used(lane) - before == some / 2);
    }
    atomic_fetch_add(&ended, rank == 0);
    UNTIL(atomic_load(&ended));
    for (uint32_t i = 0; rank == 2 && i < MANY - MANY / 3; i++) {
        CHECK(take_message(lane, 0, i, room, SIZE).size == SIZE);
        CHECK(painted(room, SIZE, 2 * i + 1));
    }
    if (rank == 2)
        post_message(lane, 0, 2, &word, 8);
    if (rank == 0) {
        take_message(lane, 2, 2, &word, 8);
        UNTIL(used(lane) == before);
        CHECK(AGAIN(acp_send(lane, 1, &(acp_envelope){.tag = 3, .size = SIZE}, room,
                             &none)) == ACP_E_LOST);
    }
    free(room);
    atomic_fetch_add(&ended, 1);
    UNTIL(atomic_load(&ended) == 1 + c->count);
}

static atomic_uint stage;

/* Both have entries, and what is long stays with rank 0. */
static void small_mailbox(uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t word = 0;
    if (rank) {
        post_message(lane, 0, 1, &word, 8);
        box_of(e)->bound = 64 << 10;
    } else {
        take_message(lane, 1, 1, &word, 8);
    }
    meet(e);
}

static int is_signal(void *context, int reason)
{
    (void)context;
    return reason == ACP_TICK_SIGNAL;
}

/* The bytes are here, and their sender is told, whose heap somebody holds: Ctrl-C ends the wait for
 * that again and again, the bytes stay where they are, and the block goes back in the end. */
static void an_interrupted_return(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { LONG = 300000 };
    unsigned char *room = malloc(LONG);
    (void)c;
    small_mailbox(rank, e, lane);
    if (rank == 0) {
        uint64_t before = used(lane);
        struct heap *h = mailbox_heap(e, e->job.own);
        struct hold hold;
        paint(room, LONG, 7);
        post_message(lane, 1, 5, room, LONG);
        CHECK(used(lane) >= before + LONG);
        CHECK(transaction_enter(&hold, lane, &h->head->section, h, ACP_FOREVER) == ACP_OK);
        atomic_store(&stage, 1);
        UNTIL(atomic_load(&stage) == 2);
        transaction_leave(&hold);
        UNTIL(used(lane) == before);
    } else {
        UNTIL(atomic_load(&stage) == 1);
        acp_request *r = ireceive(lane, 0, 5, room, LONG);
        CHECK(acp_request_wait(e, r, ACP_FOREVER) == ACP_OK && acp_request_pulls(r));
        e->config.tick = is_signal; /* asked twice a second */
        for (uint32_t i = 0; i < 2; i += acp_request_brought(r))
            CHECK(acp_request_pull(lane, r) == ACP_E_INTERRUPTED);
        e->config.tick = NULL;
        CHECK(acp_request_pulls(r) && painted(room, LONG, 7));
        room[LONG / 2] ^= 1;
        atomic_store(&stage, 2);
        CHECK(receive_end_of(lane, r).size == LONG);
        room[LONG / 2] ^= 1;
        CHECK(painted(room, LONG, 7)); /* they have not been brought again */
    }
    meet(e);
    free(room);
}

static int give_back(acp_lane *lane, acp_ga_t block, uint32_t receiver)
{
    struct acp_call call = {.method = METHOD_FREE_HELD, .object = block, .a = receiver};
    acp_handle_t pending;
    return AGAIN(acp_call(lane, &call, &pending));
}

/* Of a message with tag 5 that its sender, rank 0, keeps. */
static acp_request *pulling_receive(acp_engine *e, acp_lane *lane, void *room, uint64_t size)
{
    UNTIL(mailbox_kept(box_of(e)));
    acp_request *r = ireceive(lane, 0, 5, room, size);
    CHECK(acp_request_wait(e, r, ACP_FOREVER) == ACP_OK && acp_request_pulls(r));
    return r;
}

/* What a receiver has asked for before it died comes late: its block has gone back, and lies free, or
 * another message is there now. */
static void a_late_return(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { LONG = 300000, DEAD = 7 };
    unsigned char *room = malloc(LONG);
    uint64_t word = 0;
    (void)c;
    small_mailbox(rank, e, lane);
    if (rank == 0) {
        uint64_t before = used(lane);
        paint(room, LONG, 3);
        post_message(lane, 1, 5, room, LONG);
        take_message(lane, 1, 6, &word, 8);
        uint64_t all = used(lane);
        CHECK(all >= before + LONG && give_back(lane, word, DEAD) == ACP_E_BLOCK);
        CHECK(used(lane) == all);
        post_message(lane, 1, 7, &word, 8);
        UNTIL(used(lane) == before);
        CHECK(give_back(lane, word, 1) == ACP_E_BLOCK && used(lane) == before);
    } else {
        acp_request *r = pulling_receive(e, lane, room, LONG);
        word = r->entry->held;
        post_message(lane, 0, 6, &word, 8);
        take_message(lane, 0, 7, &word, 8);
        CHECK(receive_end_of(lane, r).size == LONG && painted(room, LONG, 3));
    }
    meet(e);
    free(room);
}

/* An envelope that is written over names other memory: the receive fails, its buffer stays as it is. */
static void a_pull_that_fails(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { LONG = 300000 };
    unsigned char *room = malloc(LONG);
    uint64_t word = 0;
    (void)c;
    small_mailbox(rank, e, lane);
    if (rank == 0) {
        uint64_t before = used(lane);
        paint(room, LONG, 3);
        post_message(lane, 1, 5, room, LONG);
        take_message(lane, 1, 6, &word, 8);
        CHECK(give_back(lane, word, 1) == ACP_OK);
        UNTIL(used(lane) == before);
    } else {
        acp_request *r = pulling_receive(e, lane, room, LONG);
        word = r->entry->held;
        r->entry->held += (uint64_t)1 << 37;
        memset(room, 5, LONG);
        CHECK(acp_request_end(lane, r, NULL) == ACP_E_UNREGISTERED && room[0] == 5 && room[LONG - 1] == 5);
        post_message(lane, 0, 6, &word, 8);
    }
    meet(e);
    free(room);
}

/* A reset ends a receive whose bytes are under way: they have somewhere to go until they have come. */
static void an_ended_pull(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { LONG = 300000 };
    unsigned char *room = malloc(LONG);
    (void)c;
    small_mailbox(rank, e, lane);
    if (rank == 0) {
        paint(room, LONG, 7);
        post_message(lane, 1, 5, room, LONG);
        UNTIL(atomic_load(&stage) == 3);
        pthread_mutex_lock(&e->lock); /* it answers nobody */
        atomic_store(&stage, 4);
        UNTIL(atomic_load(&stage) == 5);
        usleep(100000);
        pthread_mutex_unlock(&e->lock);
    } else {
        acp_request *r = pulling_receive(e, lane, room, LONG);
        atomic_store(&stage, 3);
        UNTIL(atomic_load(&stage) == 4);
        e->config.tick = is_signal;
        CHECK(acp_request_pull(lane, r) == ACP_E_INTERRUPTED);
        e->config.tick = NULL;
        e->mail.era++;
        atomic_store(&stage, 5);
        CHECK(acp_request_end(lane, r, NULL) == ACP_E_CLOSED && acp_quiet(e));
    }
    meet(e);
    free(room);
}

/* A reset comes when what nobody wants is brought, to be given back: who leads does not wait for it. */
static void an_unwanted_pull(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { LONG = 300000, ENDS = 77 };
    unsigned char *room = calloc(1, LONG);
    acp_request *r = NULL;
    (void)c;
    small_mailbox(rank, e, lane);
    if (rank == 0) {
        const acp_envelope unwanted = {.context = ENDS, .size = LONG};
        CHECK(AGAIN(acp_send(lane, 1, &unwanted, room, &r)) == ACP_OK);
        send_end_of(lane, r);
        UNTIL(atomic_load(&stage) == 6);
        pthread_mutex_lock(&e->lock); /* it answers nobody */
        atomic_store(&stage, 7);
        UNTIL(atomic_load(&stage) == 8);
        pthread_mutex_unlock(&e->lock);
    } else {
        UNTIL(mailbox_kept(box_of(e)));
        atomic_store(&stage, 6);
        UNTIL(atomic_load(&stage) == 7);
        acp_context_ends(e, ENDS);
        for (bool under_way = false; !under_way; sched_yield()) {
            UNTIL(progress_leader_try(e));
            under_way = e->mail.unwanted && e->mail.unwanted->pull && !acp_quiet(e);
            if (under_way)
                e->mail.era++;
            progress_leader_release(e);
        }
        doorbell_kick(e);
        usleep(100000); /* it looks */
        UNTIL(progress_leader_try(e));
        CHECK(e->mail.unwanted);
        progress_leader_release(e);
        atomic_store(&stage, 8);
        UNTIL(acp_quiet(e));
    }
    meet(e);
    free(room);
}

/* Who leads does not wait for a mailbox that somebody holds, and comes again. */
static void a_purge_comes_again(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct hold hold;
    (void)c;
    small_mailbox(rank, e, lane);
    UNTIL(progress_leader_try(e));
    CHECK(transaction_enter(&hold, lane, &box_of(e)->section, mailbox_heap(e, e->job.own), ACP_FOREVER) == ACP_OK);
    e->mail.losses = 1;
    purge_step(&e->lanes[LANE_LEADER]);
    CHECK(e->mail.losses == 1);
    transaction_leave(&hold);
    purge_step(&e->lanes[LANE_LEADER]);
    CHECK(!e->mail.losses);
    progress_leader_release(e);
    meet(e);
}

/* What is left in its heap cannot be brought any more: the receiver gives up its envelope, and what came behind it by
 * the same tag, which a receive would take for it. */
static void a_sender_dies(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { LONG = 300000 };
    unsigned char *room = calloc(1, LONG);
    uint64_t word = 7;
    small_mailbox(rank, e, lane);
    if (rank == 0) {
        post_message(lane, 1, 4, &word, 8);
        post_message(lane, 1, 5, room, LONG);
        post_message(lane, 1, 5, &word, 8);
        post_message(lane, 1, 6, &word, 8);
    } else {
        UNTIL(arrived(lane, 6));
    }
    meet_before_a_loss(c, !rank, e);
    if (rank) {
        peer_mark_lost(e, peer_of_slot(e, 0));
        UNTIL(mailbox_kept(box_of(e)) == 2);
        CHECK(acp_request_end(lane, ireceive(lane, 0, 5, room, LONG), NULL) == ACP_E_LOST);
        for (uint32_t tag = 4; tag <= 6; tag += 2)
            CHECK(take_message(lane, 0, tag, &word, 8).size == 8 && word == 7);
        CHECK(!mailbox_kept(box_of(e)));
    }
    free(room);
}

static void stop(struct cluster *c) /* one is lost: they do not meet again */
{
    for (uint32_t rank = 0; rank < c->count; rank++)
        acp_engine_close(c->engines[rank]);
    for (uint32_t rank = 0; rank < c->count; rank++)
        acp_engine_free(c->engines[rank]);
}

int main(void)
{
    static const uint32_t nodes[] = {1, 3};
    struct cluster c;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&c, an_interrupted_return);
    cluster_stop(&c);
    cluster_start(&c, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&c, a_purge_comes_again);
    cluster_run(&c, an_ended_pull);
    cluster_run(&c, a_late_return);
    cluster_run(&c, a_pull_that_fails);
    cluster_run(&c, an_unwanted_pull);
    cluster_stop(&c);
    cluster_start(&c, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&c, a_sender_dies);
    stop(&c);
    for (uint32_t i = 0; i < 2; i++) {
        cluster_start(&c, 3, nodes[i], ACP_PATH_ANY, CLUSTER_SHARED);
        atomic_store(&ended, 0);
        cluster_run(&c, a_receiver_dies);
        stop(&c);
    }
    return 0;
}
