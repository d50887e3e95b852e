/* A wild pointer has written into a mailbox: calls end, with an error that names the rank whose memory that is, nobody
 * writes to a wrong address, and later messages come. */
#include "cluster/collecting.h"
#include "core/upcalls.h"
#include "messages/deliver.h"
#include "messages/match.h"
#include "messages/pair_ring_deliver.h"
#include "messages/request.h"
#include "messages/send.h"
#include "peers/peer.h"

#include <unistd.h>

enum { TAG = 5, BYTES = 5000 };

static struct cluster cluster;
static unsigned char in[BYTES], out[BYTES];

static acp_engine *owner(void)
{
    return cluster.engines[0];
}

static struct mailbox *box(void)
{
    return mailbox_of(mailbox_heap(owner(), owner()->job.own));
}

static struct mail_entry *entry(uint64_t at)
{
    return mailbox_entry(mailbox_heap(owner(), owner()->job.own), at);
}

static struct mail_entry *kept_first(void)
{
    return entry(box()->arrivals.first);
}

static acp_request *expect(int64_t source, int64_t tag)
{
    return ireceive(acp_engine_lane(owner()), source, tag, in, BYTES);
}

static void ends_damaged(acp_request *r)
{
    acp_lane *lane = acp_engine_lane(owner());
    CHECK(acp_request_wait(owner(), r, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(lane, r, NULL) == ACP_E_DAMAGED && lane->fault.rank == 0);
}

static void a_message_comes(int64_t tag)
{
    acp_request *r = expect(1, tag);
    memset(in, 0, BYTES);
    post_message(acp_engine_lane(cluster.engines[1]), 0, tag, out, BYTES);
    CHECK(receive_end_of(acp_engine_lane(owner()), r).size == BYTES && !memcmp(in, out, BYTES));
}

static void *write_late(void *state)
{
    usleep(20000);
    __atomic_store_n((uint64_t *)state, 0, __ATOMIC_SEQ_CST);
    return NULL;
}

static void the_state_of_a_receive(void)
{
    static const uint64_t rubbish[] = {0, 1, 2, 3, 4, 0x2020202020202020, UINT64_MAX, ENTRY_DONE ^ 1,
                                       ENTRY_POSTED ^ 4, ENTRY_POSTED + 8, (uint64_t)1 << 40 | ENTRY_DONE};
    for (uint32_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) {
        acp_request *r = expect(i % 2 ? 1 : ACP_ANY, TAG);
        r->entry->state = rubbish[i];
        ends_damaged(r);
        a_message_comes(TAG);
    }
    pthread_t thread;
    acp_request *r = expect(1, TAG);
    CHECK(pthread_create(&thread, NULL, write_late, &r->entry->state) == 0);
    ends_damaged(r);
    pthread_join(thread, NULL);
    a_message_comes(TAG);
}

static void the_buffer_of_a_receive(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        acp_lane *lane = acp_engine_lane(cluster.engines[1]);
        acp_envelope m = {.tag = TAG, .size = BYTES};
        acp_request *r = expect(1, TAG), *sent = NULL;
        *(i == 0 ? &r->entry->buffer : i == 1 ? &r->entry->room : &r->entry->global) ^= (uint64_t)1 << 20;
        CHECK(AGAIN(acp_send(lane, 0, &m, out, &sent)) == ACP_E_DAMAGED && !sent && lane->fault.rank == 0);
        ends_damaged(r);
        a_message_comes(TAG);
    }
}

static void the_block_of_a_message(void)
{
    static const uint64_t rubbish[] = {37, 0x2020202020202020, UINT64_MAX - 7};
    for (uint32_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) {
        post_message(acp_engine_lane(cluster.engines[1]), 0, TAG, out, BYTES);
        CHECK(kept_first()->place == PLACE_BLOCK);
        kept_first()->block = rubbish[i];
        ends_damaged(expect(1, TAG));
        a_message_comes(TAG);
    }
}

/* The bytes of a message come no more: it is complete, though its entry does not tell so any more. */
static void a_filler_that_is_past_it(void)
{
    acp_lane *lane = acp_engine_lane(cluster.engines[1]);
    const acp_envelope m = {.source = 1, .tag = TAG, .size = BYTES};
    for (uint32_t i = 0; i < 2; i++) {
        struct landing l;
        acp_request *r = i ? expect(1, TAG) : NULL;
        CHECK(AGAIN(match_arrive(lane, peer_of_slot(lane->engine, 0), &m, NULL, false, 1, &l)) == ACP_OK && l.open);
        r = r ? r : expect(1, TAG);
        CHECK(!acp_request_done(r) && deliver_open(lane, &l) == ACP_OK && !acp_request_done(r));
        CHECK(deliver_fill(lane, &l, 0, out, BYTES) == ACP_OK && !acp_request_done(r));
        deliver_complete(lane, &l);
        r->entry->state = ENTRY_FILLING;
        ends_damaged(r);
        a_message_comes(TAG);
    }
}

/* With counts that bound nothing any more. */
static void circles(void)
{
    acp_lane *lane = acp_engine_lane(owner());
    acp_envelope want = {.source = ACP_ANY, .tag = 99}, found;
    acp_request *wild = expect(ACP_ANY, 30), *other = expect(ACP_ANY, 31);
    for (uint32_t i = 0; i < 5; i++)
        post_message(acp_engine_lane(cluster.engines[1]), 0, TAG, out, 8);
    struct mail_entry *second = entry(kept_first()->arrival.next);
    second->arrival.next = second->link.next = box()->arrivals.first;
    wild->entry->link.next = mailbox_entry_offset(mailbox_heap(owner(), owner()->job.own), wild->entry);
    box()->kept[MAIL_USERS] = box()->posted[MAIL_USERS] = UINT64_MAX / 2;
    CHECK(AGAIN(acp_probe(lane, &want, &found, NULL)) == ACP_E_HANDLE);
    want.source = 1;
    want.tag = TAG;
    CHECK(AGAIN(acp_probe(lane, &want, &found, NULL)) == ACP_OK && found.size == 8);
    post_message(acp_engine_lane(cluster.engines[1]), 0, 32, out, 8); /* along the receives of any rank */
    acp_request_cancel(lane, other);
    acp_request_cancel(lane, wild);
    acp_request_end(lane, other, NULL);
    acp_request_end(lane, wild, NULL);
}

enum { KEPT = 5, PLACES = 10 };

static uint64_t *place_of_kept(uint32_t i)
{
    struct mail_entry *second = entry(kept_first()->arrival.next);
    struct mail_chain *bucket = &box()->messages[mailbox_bucket(0, 1, TAG)];
    uint64_t *const places[PLACES] = {
        &bucket->first, &bucket->last, &box()->arrivals.first, &box()->arrivals.last, &second->link.next,
        &second->link.previous, &second->arrival.next, &second->arrival.previous, &second->list, &box()->kept[MAIL_USERS],
    };
    return places[i];
}

static void keep_some(void)
{
    for (uint32_t i = 0; i < KEPT; i++)
        post_message(acp_engine_lane(cluster.engines[1]), 0, i % 3 == 2 ? TAG + 1 : TAG, out + i, BYTES - KEPT);
}

static void damage_both(uint32_t one, uint32_t other, uint64_t word)
{
    uint64_t *a = place_of_kept(one), *b = place_of_kept(other);
    *a = *b = word;
}

/* A message is in two lists: where one is damaged it comes all the same, and in order. */
static void a_list_of_messages(void)
{
    static const uint64_t rubbish[] = {0, 37, 0x2020202020202020};
    for (uint32_t i = 0; i < 3 * PLACES + 2; i++) {
        keep_some();
        if (i < 3 * PLACES)
            *place_of_kept(i % PLACES) = rubbish[i / PLACES];
        else /* both ends of a list */
            damage_both(2 - i % 2 * 2, 3 - i % 2 * 2, 0);
        owner()->up->doubt(owner());
        for (uint32_t n = 0; n < KEPT; n++) {
            acp_request *r = expect(i % 2 ? 1 : ACP_ANY, n % 3 == 2 ? TAG + 1 : TAG);
            CHECK(acp_request_done(r));
            receive_end_of(acp_engine_lane(owner()), r);
            CHECK(!memcmp(in, out + n, BYTES - KEPT));
        }
        CHECK(!mailbox_kept(box()) && !mailbox_posted(box()) && !box()->arrivals.first);
    }
}

/* A sender would wait for ever. */
static void the_bytes_of_messages(void)
{
    for (uint32_t i = 0; i < 4; i++) {
        keep_some();
        uint64_t *const words[] = {&box()->bytes, &box()->bound, &kept_first()->cost, &kept_first()->cost};
        uint64_t bytes = box()->bytes, bound = box()->bound;
        CHECK(bytes > KEPT * sizeof(struct mail_entry) && bytes < bound);
        *words[i] = i % 3 ? 0 : UINT64_MAX / 2;
        owner()->up->doubt(owner());
        CHECK(box()->bound == bound && (i < 2 ? box()->bytes == bytes : box()->bytes < bytes));
        for (uint32_t n = 0; n < KEPT; n++)
            receive_end_of(acp_engine_lane(owner()), expect(1, ACP_ANY));
        CHECK(!box()->bytes && !mailbox_kept(box()));
    }
}

static void clear(void)
{
    acp_lane *lane = acp_engine_lane(owner());
    acp_envelope want = {.source = ACP_ANY, .tag = ACP_ANY}, found;
    while (AGAIN(acp_probe(lane, &want, &found, NULL)) == ACP_OK)
        acp_request_end(lane, expect(ACP_ANY, ACP_ANY), NULL);
}

/* A message is not taken for what a wild pointer has made of it. */
static void never_comes(uint64_t source, int64_t tag, uint64_t context)
{
    const struct mail_chain *bucket = &box()->messages[mailbox_bucket(context, source, (uint64_t)tag)];
    for (struct mail_entry *l = entry(bucket->first); l; l = entry(l->link.next))
        CHECK(l->source != source || l->tag != (uint64_t)tag || l->context != context ||
              mailbox_entry_state(l) == ENTRY_LOST);
}

/* Another of the same bucket: the list stays as it was. */
static uint64_t other_tag(void)
{
    uint64_t tag = TAG + 2;
    while (mailbox_bucket(0, 1, tag) != mailbox_bucket(0, 1, TAG))
        tag++;
    return tag;
}

/* Nobody knows which: a receive that waits ends, now or when there is one. */
static void a_message_of_no_list(void)
{
    static const uint32_t pairs[][2] = {{0, 2}, {0, 6}, {4, 2}, {5, 7}};
    owner()->config.peer_timeout_ns = 1000000000;
    for (uint32_t i = 0; i < 2 * 4 + 4; i++) {
        keep_some();
        struct mail_entry *second = entry(kept_first()->arrival.next);
        if (i < 8)
            damage_both(pairs[i / 2][0], pairs[i / 2][1], 37);
        else if (i < 11)
            *(i == 8 ? &second->tag : i == 9 ? &second->source : &second->context) ^= 64;
        else
            second->tag = other_tag();
        acp_request *r = i % 2 ? NULL : expect(1, 99);
        owner()->up->doubt(owner());
        ends_damaged(r ? r : expect(1, 99));
        if (i >= 8)
            never_comes(i == 9 ? 65 : 1, i == 8 ? TAG ^ 64 : i == 11 ? (int64_t)other_tag() : TAG, i == 10 ? 64 : 0);
        acp_request *other = expect(1, 98);
        owner()->up->doubt(owner()); /* it has been told */
        CHECK(!acp_request_done(other));
        acp_request_cancel(acp_engine_lane(owner()), other);
        acp_request_end(acp_engine_lane(owner()), other, NULL);
        clear();
        a_message_comes(TAG);
    }
}

/* Its bytes are under way: nobody gets them. */
static void a_long_message_of_another_tag(void)
{
    acp_lane *lane = acp_engine_lane(cluster.engines[1]);
    const acp_envelope m = {.source = 1, .tag = TAG, .size = BYTES};
    struct landing l;
    acp_request *r = expect(1, TAG + 1);
    CHECK(AGAIN(match_arrive(lane, peer_of_slot(lane->engine, 0), &m, NULL, false, 1, &l)) == ACP_OK && l.open);
    kept_first()->tag = other_tag();
    owner()->up->doubt(owner());
    ends_damaged(r);
    r = expect(1, (int64_t)other_tag());
    CHECK(deliver_open(lane, &l) == ACP_OK && deliver_fill(lane, &l, 0, out, BYTES) == ACP_OK);
    deliver_complete(lane, &l);
    while (mailbox_kept(box()))
        usleep(1000);
    CHECK(!acp_request_done(r) && AGAIN(acp_request_cancel(acp_engine_lane(owner()), r)) == ACP_OK);
    acp_request_end(acp_engine_lane(owner()), r, NULL);
    a_message_comes(TAG);
}

static struct hold theirs;

static int ask(void *calls, int reason)
{
    if (reason == ACP_TICK_SIGNAL && ++*(uint32_t *)calls == 2)
        transaction_leave(&theirs);
    return reason == ACP_TICK_SIGNAL;
}

/* Another holds the mailbox, and signals come: a receive that ends is out of its list all the same. */
static void an_end_is_not_interrupted(void)
{
    uint32_t calls = 0;
    acp_request *r = expect(1, TAG);
    acp_lane *lane = acp_lane_take(owner()), *other = acp_engine_lane(cluster.engines[1]);
    struct heap *h = mailbox_heap(other->engine, peer_of_slot(other->engine, 0));
    CHECK(AGAIN(transaction_enter(&theirs, other, &mailbox_of(h)->section, h, ACP_FOREVER)) == ACP_OK);
    owner()->config.tick_context = &calls;
    owner()->config.tick = ask;
    CHECK(acp_request_end(lane, r, NULL) == ACP_E_CANCELLED && calls == 2 && !mailbox_posted(box()));
    owner()->config.tick = NULL;
    acp_lane_give(lane);
}

static void a_list_of_receives(void)
{
    for (uint32_t i = 0; i < 8; i++) {
        acp_request *r[4] = {expect(1, TAG), expect(1, TAG), expect(ACP_ANY, TAG), expect(1, ACP_ANY)};
        struct mail_chain *bucket = &box()->receives[mailbox_bucket(0, 1, TAG)];
        uint64_t *const places[] = {&bucket->first,        &bucket->last,         &r[0]->entry->link.next,
                                    &r[1]->entry->want_tag, &r[3]->entry->context, &box()->wild.first,
                                    &r[2]->entry->link.next, &r[2]->entry->want_source};
        if (i != 4)
            *places[i] = 37;
        else
            r[3]->entry->link.previous = 0;
        owner()->up->doubt(owner());
        for (uint32_t k = 0; k < 4; k++)
            ends_damaged(r[k]);
        a_message_comes(TAG);
        CHECK(!mailbox_posted(box()));
    }
    acp_request *r[3] = {expect(1, TAG), expect(ACP_ANY, TAG), expect(1, ACP_ANY)};
    box()->posted[MAIL_USERS] = 99;
    owner()->up->doubt(owner());
    CHECK(mailbox_posted(box()) == 3);
    for (uint32_t k = 0; k < 3; k++) {
        CHECK(!acp_request_done(r[k]) && AGAIN(acp_request_cancel(acp_engine_lane(owner()), r[k])) == ACP_OK);
        acp_request_end(acp_engine_lane(owner()), r[k], NULL);
    }
}

/* While its sender has gone on. */
static void a_receive_that_waits_looks_itself(void)
{
    owner()->config.peer_timeout_ns = 1000000000;
    keep_some();
    damage_both(0, 2, 37);
    ends_damaged(expect(1, TAG));
    clear();
    a_message_comes(TAG);
}

static void wipe_out(void)
{
    acp_envelope m = {.tag = TAG, .size = 8, .note = TAG * 7 + 8};
    struct pair_ring *ring = &box()->rings[MAIL_USERS].rings[1];
    uint64_t at;
    CHECK(acp_send_short(acp_engine_lane(cluster.engines[1]), 0, &m, out) && pair_ring_unseal(ring->taken, &at));
    pair_ring_lines(mailbox_heap(owner(), owner()->job.own), ring)[at % RING_LINES].stamp = 0;
}

static void *sender_receives(void *unused)
{
    char word;
    (void)unused;
    take_message(acp_engine_lane(cluster.engines[1]), 0, 9, &word, 1);
    return NULL;
}

static void *sender_meets(void *unused)
{
    (void)unused;
    CHECK(acp_barrier(cluster.engines[1], NULL, 0, 0, ACP_FOREVER) == ACP_OK);
    return NULL;
}

static void *sender_is_in_a_collective(void *unused)
{
    struct script s;
    (void)unused;
    script_begin(&s, 2, -1, 0);
    script_exchange(&s, 1, 8);
    s.buffers[IN] = in;
    s.buffers[OUT] = out + 16;
    acp_collective *c = begin(cluster.engines[1], &s, 100);
    acp_collective_release(c);
    CHECK(acp_collective_wait(c, ACP_FOREVER) == ACP_OK);
    acp_collective_end(c);
    return NULL;
}

static void owner_is_in_a_collective(void)
{
    struct script s;
    script_begin(&s, 2, -1, 0);
    script_exchange(&s, 0, 8);
    s.buffers[IN] = in;
    s.buffers[OUT] = out + 16;
    acp_collective *c = begin(owner(), &s, 100);
    CHECK(acp_collective_run(c, ACP_FOREVER) == ACP_OK);
    acp_collective_end(c);
}

/* As if it had never come: its sender finds that, and each receive that it may have been for ends. */
static void a_short_message_that_is_wiped_out(void)
{
    acp_lane *lane = acp_engine_lane(owner());
    acp_lane *sender = acp_engine_lane(cluster.engines[1]);
    acp_envelope m = {.tag = TAG, .size = 8, .note = TAG * 7 + 8};
    for (uint32_t i = 0; i < 3; i++)
        CHECK(acp_send_short(sender, 0, &m, out));
    pair_ring_deliver_answer(sender); /* all are where they were */
    for (uint32_t i = 0; i < 3; i++)
        CHECK(take_message(lane, 1, TAG, in, 8).size == 8);
    acp_request *own = expect(0, TAG);
    acp_request_cancel(lane, own);
    acp_request_end(lane, own, NULL);
    wipe_out();
    own = expect(0, TAG);
    acp_request *one = expect(1, TAG), *any = expect(ACP_ANY, TAG + 1);
    pair_ring_deliver_answer(sender);
    ends_damaged(one);
    ends_damaged(any);
    CHECK(!acp_request_done(own) && AGAIN(acp_request_cancel(lane, own)) == ACP_OK);
    acp_request_end(lane, own, NULL);
    pair_ring_deliver_answer(sender);
}

/* Its sender has gone on: a later one is there. */
static void a_short_message_that_is_missing_before_another(void)
{
    acp_lane *lane = acp_engine_lane(owner());
    acp_envelope m = {.tag = TAG, .size = 8, .note = TAG * 7 + 8};
    wipe_out();
    for (uint32_t i = 0; i < 2; i++)
        CHECK(acp_send_short(acp_engine_lane(cluster.engines[1]), 0, &m, out + i));
    acp_request *r = expect(1, TAG);
    CHECK(!acp_request_done(r));
    owner()->up->doubt(owner());
    ends_damaged(r);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(take_message(lane, 1, TAG, in, 8).size == 8 && !memcmp(in, out + i, 8));
    struct pair_ring *ring = &box()->rings[MAIL_USERS].rings[1];
    uint64_t at;
    CHECK(pair_ring_unseal(ring->taken, &at));
    ring->copying = at; /* another thread does that */
    CHECK(pair_ring_copying(ring, at) == at && pair_ring_copying(ring, at - 1 + RING_LINES) == at);
    CHECK(!pair_ring_copying(ring, at + RING_LINES));
    ring->copying = (uint64_t)1 << 40; /* what it writes there does not keep lines from the sender */
    for (uint32_t sent = 0; sent < 2 * RING_LINES; ring->copying = (uint64_t)1 << 40) {
        bool ringed = acp_send_short(acp_engine_lane(cluster.engines[1]), 0, &m, out);
        if (!ringed) /* it has no entry, now and then */
            post_message(acp_engine_lane(cluster.engines[1]), 0, TAG, out, 8);
        sent += ringed;
        CHECK(take_message(lane, 1, TAG, in, 8).size == 8);
    }
    ring->copying = 0;
}

/* Whatever it waits for, if it does: it is asked by those that wait for its message. */
static void whatever_its_sender_does(void *(*waits)(void *), void (*goes_on)(void))
{
    pthread_t thread;
    owner()->config.peer_timeout_ns = 1000000000;
    wipe_out();
    CHECK(!waits || pthread_create(&thread, NULL, waits, NULL) == 0);
    ends_damaged(expect(1, TAG));
    goes_on();
    if (waits)
        pthread_join(thread, NULL);
}

static void a_probe_ends(void)
{
    const acp_envelope want = {.source = ACP_ANY, .tag = 99};
    acp_envelope found;
    CHECK(acp_probe_wait(owner(), &want, &found, NULL, ACP_FOREVER) == ACP_E_DAMAGED);
    CHECK(acp_probe_wait(owner(), &want, &found, NULL, 50000000) == ACP_E_TIMEOUT);
}

/* A probe waits for it: it was kept, or lies in a ring, there alone or before others. */
static void a_message_of_a_probe(void)
{
    acp_envelope m = {.tag = TAG, .size = 8, .note = TAG * 7 + 8};
    owner()->config.peer_timeout_ns = 1000000000;
    keep_some();
    damage_both(0, 2, 37);
    owner()->up->doubt(owner()); /* nobody waits for it yet */
    a_probe_ends();
    clear();
    wipe_out();
    a_probe_ends();
    a_message_comes(TAG);
    wipe_out();
    CHECK(acp_send_short(acp_engine_lane(cluster.engines[1]), 0, &m, out));
    a_probe_ends();
    CHECK(take_message(acp_engine_lane(owner()), 1, TAG, in, 8).size == 8);
}

/* Its sender has gone on. It is told, too, and maybe the next call; later ones are as before. */
static void a_message_of_a_collective(uint64_t rubbish, bool released)
{
    const struct pair_ring *ring = &box()->rings[MAIL_COLLECTIVES].rings[1];
    acp_lane *lane = acp_engine_lane(cluster.engines[1]);
    acp_envelope m = {.context = ACP_CONTEXT_COLLECTIVE | 200, .size = 8, .note = 77};
    acp_envelope others = {.context = 400, .source = 1, .size = 8};
    acp_request *sent, *user;
    struct script s;
    uint64_t value = 4242, other = 0, at;
    owner()->config.peer_timeout_ns = 1000000000;
    script_begin(&s, 2, -1, 0);
    script_receive(&s, 1, OUT, 0, 8);
    script_await(&s);
    s.buffers[OUT] = &other;
    CHECK(acp_send_short(lane, 0, &m, &value) && pair_ring_unseal(ring->taken, &at));
    pair_ring_lines(mailbox_heap(owner(), owner()->job.own), ring)[at % RING_LINES].stamp = rubbish;
    CHECK(AGAIN(acp_receive(acp_engine_lane(owner()), &others, in, &user)) == ACP_OK);
    owner()->up->doubt(owner());
    CHECK(carry(owner(), &s, 200, released, NULL) == ACP_E_DAMAGED);
    CHECK(!acp_request_done(user));
    acp_request_cancel(acp_engine_lane(owner()), user);
    acp_request_end(acp_engine_lane(owner()), user, NULL);
    for (uint32_t n = 0; other != 4242; n++) {
        m.context = ACP_CONTEXT_COLLECTIVE | (300 + n);
        int rc = AGAIN(acp_send(lane, 0, &m, &value, &sent));
        CHECK(n < 3 && (rc == ACP_OK || rc == ACP_E_DAMAGED));
        rc = carry(owner(), &s, 300 + n, released, NULL);
        CHECK(rc == (other == 4242 ? ACP_OK : ACP_E_DAMAGED));
        if (sent)
            acp_request_end(lane, sent, NULL);
    }
}

static void owner_goes_on(void)
{
    a_message_comes(TAG);
}

static void owner_sends(void)
{
    post_message(acp_engine_lane(owner()), 1, 9, out, 1);
}

static void owner_meets(void)
{
    CHECK(acp_barrier(owner(), NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void start(void)
{
    cluster_start(&cluster, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
}

int main(void)
{
    static const uint64_t rubbish[] = {0, 1, 2, 3, 0x2020202020202020, UINT64_MAX};
    static void *(*const waits[])(void *) = {NULL, sender_receives, sender_meets, sender_is_in_a_collective};
    static void (*const goes_on[])(void) = {owner_goes_on, owner_sends, owner_meets, owner_is_in_a_collective};
    for (uint32_t i = 0; i < BYTES; i++)
        out[i] = (unsigned char)(i * 7 + 1);
    start();
    the_state_of_a_receive();
    the_buffer_of_a_receive();
    the_block_of_a_message();
    a_filler_that_is_past_it();
    a_list_of_messages();
    the_bytes_of_messages();
    a_message_of_no_list();
    a_long_message_of_another_tag();
    an_end_is_not_interrupted();
    a_list_of_receives();
    a_receive_that_waits_looks_itself();
    circles();
    cluster_stop(&cluster);
    start();
    a_short_message_that_is_wiped_out();
    a_message_comes(TAG); /* the pair goes on */
    a_short_message_that_is_missing_before_another();
    cluster_stop(&cluster);
    for (uint32_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) {
        start();
        a_message_comes(TAG); /* it leaves an entry, without which no ring is used */
        a_message_of_a_collective(rubbish[i], i % 2);
        cluster_stop(&cluster);
    }
    start();
    a_message_of_a_probe();
    cluster_stop(&cluster);
    for (uint32_t i = 0; i < 4; i++) {
        start();
        whatever_its_sender_does(waits[i], goes_on[i]);
        cluster_stop(&cluster);
    }
    return 0;
}
