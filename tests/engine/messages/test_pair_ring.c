/* Pair rings: each message comes once, in the order of its sender, by its ring or by the mailbox, whichever side looks
 * or is late; and what is damaged in a ring is noticed. */
#include "cluster/cluster.h"
#include "support/ringing.h"
#include "core/upcalls.h"
#include "messages/pair_ring.h"
#include "messages/request.h"
#include "progress/doorbell.h"

enum { NUMBERS = 100000 };

/* What is sent while a receive waits meets it. */
static void meet_it(struct stage *s, struct sender *from, const acp_envelope *m, uint64_t number)
{
    acp_request *r;
    acp_envelope want = *m, got;
    want.context = 77; /* nothing of it is kept */
    want.size = UINT64_MAX;
    CHECK(acp_receive(s->actor.lane, &want, NULL, &r) == ACP_OK && !acp_request_done(r));
    CHECK(!send_it(from, want, number) && acp_request_done(r));
    CHECK(acp_request_end(s->actor.lane, r, &got) == ACP_OK && got.note == number);
}

static void probe_it(struct stage *s, const struct said_all *all, const acp_envelope *want)
{
    acp_envelope found;
    int rc = acp_probe(s->actor.lane, want, &found, NULL);
    CHECK(rc == (any_fits(all, want) ? ACP_OK : ACP_E_HANDLE));
}

static void against_a_model(void)
{
    struct stage s;
    struct sender senders[SOURCES];
    struct said_all all = {.count = 0};
    uint64_t state = 4711, ringed = 0, taken = 0;
    int fd = open_mailbox(&s);
    for (uint32_t i = 0; i < SOURCES; i++)
        sender_start(&senders[i], fd, i);
    for (uint64_t number = 1; number <= NUMBERS; number++) {
        uint64_t what = crash_random(&state) % (number / 32 % 2 ? 12 : 16); /* half of the time rings alone */
        acp_envelope m = any_envelope(&state, false), want = any_envelope(&state, true);
        if (number % 32 == 0) /* rings are used again when nothing is kept */
            while (all.count)
                receive_it(&s, &all, (acp_envelope){.context = all.list[0].envelope.context, .source = ACP_ANY,
                                                    .tag = ACP_ANY});
        if (what < 6 && all.count < MOST - 1) {
            ringed += send_it(&senders[m.source], m, number);
            all.list[all.count++] = (struct said){m, number};
        } else if (what < 12) {
            taken += take_from_ring(&s, &all, &want);
        } else if (what < 14) {
            receive_it(&s, &all, want);
        } else if (what < 15) {
            meet_it(&s, &senders[m.source], &m, number);
        } else {
            probe_it(&s, &all, &want);
        }
    }
    printf("pair rings: %lu of %u messages, %lu taken from there\n", (unsigned long)ringed, NUMBERS, (unsigned long)taken);
    CHECK(ringed > NUMBERS / 20 && taken > NUMBERS / 200);
    CHECK(pair_ring_any(&s.actor.heap, MAIL_USERS) || check_lists_of(&s.actor.heap) == all.count);
    requests_close(s.actor.engine);
    for (uint32_t i = 0; i < SOURCES; i++)
        sender_end(&senders[i]);
    actor_end(&s.actor);
    close(fd);
}

/* More than there is room for, and those that come after a long one. */
static void a_full_ring_is_brought_first(void)
{
    struct stage s;
    struct sender from;
    acp_request *r;
    acp_envelope m = {.source = 1, .tag = 3}, got;
    uint64_t ringed = 0, all = ring_holds() + 20;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, 1);
    for (uint64_t n = 1; n <= all; n++)
        ringed += send_it(&from, m, nth_of_ring(n));
    CHECK(ringed == ring_holds() && mailbox_kept(box_of(&s)) == all);
    for (uint64_t n = 1; n <= all; n++) {
        CHECK(acp_receive(s.actor.lane, &(acp_envelope){.source = 1, .tag = 3, .size = UINT64_MAX}, NULL, &r) == ACP_OK);
        CHECK(is_it(acp_request_data(s.actor.lane, r), nth_of_ring(n)));
        CHECK(acp_request_end(s.actor.lane, r, &got) == ACP_OK && got.note == nth_of_ring(n));
    }
    CHECK(send_it(&from, m, 1)); /* and then it is used again */
    CHECK(check_lists_of(&s.actor.heap) == 0);
    sender_end(&from);
    close_mailbox(&s, fd);
}

enum { TAG = 5, FROM = 2 };

static int receive_status(struct stage *s, int64_t source)
{
    acp_request *r;
    acp_envelope want = {.source = source, .tag = TAG, .size = UINT64_MAX}, got;
    int rc = acp_receive(s->actor.lane, &want, NULL, &r);
    if (rc != ACP_OK)
        return rc;
    if (!acp_request_done(r))
        CHECK(acp_request_cancel(s->actor.lane, r) == ACP_OK);
    return acp_request_end(s->actor.lane, r, &got);
}

static acp_request *wait_there(struct stage *s, int64_t source, int64_t tag)
{
    acp_request *r;
    acp_envelope want = {.source = source, .tag = tag, .size = UINT64_MAX};
    CHECK(acp_receive(s->actor.lane, &want, NULL, &r) == ACP_OK && !acp_request_done(r));
    return r;
}

/* Ranks of a place are 32 apart; a rank has 32 bits at most. */
static void owners_fit_their_places(void)
{
    for (uint32_t place = 0; place < RING_SENDERS; place++) {
        const uint64_t most = UINT32_MAX - (UINT32_MAX - 1 - place) % RING_SENDERS;
        const struct {
            uint64_t owner;
            bool fits;
        } owners[] = {{0, true}, {place + 1, true}, {place + 2, false}, {place + 33, true}, {place + 32, false},
                      {most, true}, {most + RING_SENDERS, false}, {((uint64_t)1 << 32) + place + 1, false}};
        for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
            struct pair_ring ring = {.owner = owners[i].owner};
            CHECK(pair_ring_owner_fits(&ring, place) == owners[i].fits);
        }
    }
}

/* Those that have ended, the last one first. */
static void requests_are_used_again(void)
{
    struct stage s;
    acp_request *r[3], *again;
    int fd = open_mailbox(&s);
    for (int64_t i = 0; i < 3; i++)
        r[i] = wait_there(&s, 1, i);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            CHECK(acp_request_cancel(s.actor.lane, r[i]) == ACP_OK &&
                  acp_request_end(s.actor.lane, r[i], NULL) == ACP_E_CANCELLED);
        for (int i = 2; i >= 0; i--) {
            again = wait_there(&s, 1, i);
            CHECK(again == r[i]);
        }
    }
    for (int i = 0; i < 3; i++)
        CHECK(acp_request_cancel(s.actor.lane, r[i]) == ACP_OK && acp_request_end(s.actor.lane, r[i], NULL) != ACP_OK);
    close_mailbox(&s, fd);
}

/* The next ones come, in order, by the ring and by the mailbox; then there is nothing. */
static void numbers_come(struct stage *s, struct sender *from, uint64_t number, uint64_t last)
{
    acp_envelope m = {.source = FROM, .tag = TAG}, got;
    acp_request *r;
    for (uint64_t n = last + 1; n <= last + 3; n++)
        send_it(from, m, nth_of_ring(n));
    for (m.size = UINT64_MAX; number <= last + 3; number++) {
        CHECK(acp_receive(s->actor.lane, &m, NULL, &r) == ACP_OK && acp_request_done(r));
        CHECK(is_it(acp_request_data(s->actor.lane, r), nth_of_ring(number)));
        CHECK(acp_request_end(s->actor.lane, r, &got) == ACP_OK && got.note == nth_of_ring(number));
    }
    CHECK(receive_status(s, ACP_ANY) == ACP_E_CANCELLED && !mailbox_posted(box_of(s)) && check_lists_of(&s->actor.heap) == 0);
    m.size = 0;
    bool ringed = send_it(from, m, 1); /* not if the mailbox has no entry: those of damaged receives are not used again */
    CHECK(ringed || (receive_status(s, FROM) == ACP_OK && send_it(from, m, 1)));
    struct said_all all = {.list = {{m, 1}}, .count = 1};
    CHECK(take_from_ring(s, &all, &m));
}

/* By the receiver that looks: who wants a message of others is not told. */
static void receiver_is_told(struct stage *s, struct sender *from)
{
    acp_envelope want = {.source = FROM, .tag = TAG}, found;
    CHECK(receive_status(s, 1) == ACP_E_CANCELLED && pair_ring_any(&s->actor.heap, MAIL_USERS));
    CHECK(acp_probe(s->actor.lane, &want, &found, NULL) == ACP_E_DAMAGED && s->actor.lane->fault.status == ACP_E_DAMAGED);
    (void)from;
}

/* A look by nobody who waits for a message leaves it to the next. */
static void receive_is_told(struct stage *s, struct sender *from)
{
    struct hold hold;
    (void)from;
    CHECK(transaction_enter(&hold, s->actor.lane, &box_of(s)->section, &s->actor.heap, ACP_FOREVER) == ACP_OK);
    CHECK(pair_ring_deliver_all(&hold, MAIL_USERS, NULL) == ACP_E_DAMAGED);
    transaction_leave(&hold);
    CHECK(receive_status(s, ACP_ANY) == ACP_E_DAMAGED && mailbox_posted(box_of(s)) == 0);
}

/* By the sender, and by it again until the receiver has been told. */
static void sender_is_told_first(struct stage *s, struct sender *from)
{
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(pair_ring_lacks(from->actor.engine, &from->to, MAIL_USERS) || pair_ring_before(from->actor.engine, &from->to, MAIL_USERS));
        CHECK(pair_ring_deliver_own(from->actor.lane, &from->to, MAIL_USERS) == ACP_E_DAMAGED);
    }
    receive_is_told(s, from);
    CHECK(!pair_ring_lacks(from->actor.engine, &from->to, MAIL_USERS));
}

static void both_are_told(struct stage *s, struct sender *from)
{
    /* As if they had been posted before: without a look into the rings */
    uint64_t owned = box_of(s)->rings[MAIL_USERS].owned;
    box_of(s)->rings[MAIL_USERS].owned = 0;
    acp_request *r[] = {wait_there(s, FROM, 77), wait_there(s, ACP_ANY, ACP_ANY), wait_there(s, 1, TAG)};
    box_of(s)->rings[MAIL_USERS].owned = owned;
    CHECK(pair_ring_deliver_own(from->actor.lane, &from->to, MAIL_USERS) == ACP_E_DAMAGED);
    CHECK(acp_request_done(r[0]) && acp_request_end(s->actor.lane, r[0], NULL) == ACP_E_DAMAGED);
    CHECK(acp_request_done(r[1]) && acp_request_end(s->actor.lane, r[1], NULL) == ACP_E_DAMAGED);
    CHECK(acp_request_cancel(s->actor.lane, r[2]) == ACP_OK);
    acp_request_end(s->actor.lane, r[2], NULL);
}

/* What a wild pointer writes there is noticed once by whoever looks, and later messages come. */
static void damage_is_noticed_and_passed(void)
{
    static void (*const tell[])(struct stage *, struct sender *) = {receiver_is_told, receive_is_told,
                                                                    sender_is_told_first, both_are_told};
    struct stage s;
    struct sender from;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, FROM);
    struct pair_ring *ring = &box_of(&s)->rings[MAIL_USERS].rings[FROM];
    for (uint64_t round = 0; round < 200; round++) {
        uint64_t at, end, state = round + 1, sent = round % 3 + 1, how = round / 4 % 5;
        for (uint64_t n = 1; n <= sent; n++)
            CHECK(send_it(&from, (acp_envelope){.source = FROM, .tag = TAG}, nth_of_ring(n)));
        CHECK(pair_ring_unseal(ring->taken, &at));
        end = at;
        for (uint64_t n = 1; n <= sent; n++)
            end += pair_ring_count(size_of(nth_of_ring(n)));
        uint64_t *stamp = &pair_ring_lines(&s.actor.heap, ring)[at % RING_LINES].stamp;
        bool wiped = how == 2;
        if (how < 2)
            ring->taken ^= 1 + crash_random(&state); /* any other */
        else
            *stamp = wiped ? 0 : how == 3 ? (at + 1) << 16 | (ACP_SHORT_MOST + 1)
                                          : (at + 2 + crash_random(&state) % 1000) << 16 | 8;
        if (wiped && round % 4 < 2)
            sender_is_told_first(&s, &from); /* it looks empty to the receiver */
        else
            tell[round % 4](&s, &from);
        if (how < 2) /* where the next message begins */
            CHECK(ring->taken == pair_ring_sealed(end));
        if (round % 4 != 3 && how > 2 && sent == 1) /* its sender knows that there is none behind it */
            pair_ring_deliver_own(from.actor.lane, &from.to, MAIL_USERS), receive_status(&s, FROM);
        numbers_come(&s, &from, how < 2 ? sent + 1 : 2, sent);
    }
    sender_end(&from);
    close_mailbox(&s, fd);
}

/* The receiver is told as long as they are wrong, the sender writes them again: nothing is lost. */
static void words_of_the_sender(void)
{
    struct stage s;
    struct sender from;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, FROM);
    CHECK(send_it(&from, (acp_envelope){.source = FROM, .tag = TAG}, nth_of_ring(1)));
    struct pair_ring *ring = &box_of(&s)->rings[MAIL_USERS].rings[FROM];
    uint64_t *const words[] = {&ring->owner, &ring->lines};
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t was = *words[i];
        *words[i] = was + 1;
        CHECK(receive_status(&s, FROM) == ACP_E_DAMAGED && receive_status(&s, ACP_ANY) == ACP_E_DAMAGED);
        CHECK(receive_status(&s, 1) == ACP_E_CANCELLED && pair_ring_lacks(from.actor.engine, &from.to, MAIL_USERS));
        CHECK(pair_ring_deliver_own(from.actor.lane, &from.to, MAIL_USERS) == ACP_OK && *words[i] == was);
    }
    numbers_come(&s, &from, 1, 1);
    sender_end(&from);
    close_mailbox(&s, fd);
}

/* Without lines, or with such as are not in the heap, nothing is written. */
static void a_block_that_is_none(void)
{
    static const uint64_t rubbish[] = {CRASH_SPAN - 64, (uint64_t)1 << 40, 0x2020202020202020, UINT64_MAX - 7};
    struct stage s;
    struct sender from;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, 1);
    acp_envelope m = {.source = 1, .tag = 5};
    uint64_t *block = &box_of(&s)->rings[MAIL_USERS].rings[1].block;
    for (uint32_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) {
        *block = rubbish[i];
        CHECK(!by_ring(&from, m, 1));
    }
    *block = 0;
    CHECK(by_ring(&from, m, 1));
    sender_end(&from);
    close_mailbox(&s, fd);
}

/* Words of which nothing is true: nothing is read that is not there, and calls end. */
static void garbage_is_not_believed(void)
{
    struct stage s;
    struct sender from;
    acp_short m;
    uint64_t state = 99, damaged = 0;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, 1);
    struct pair_rings *all = &box_of(&s)->rings[MAIL_USERS];
    for (uint32_t round = 0; round < 2000; round++) {
        struct pair_ring *ring = &all->rings[2];
        uint64_t *words = (uint64_t *)(void *)ring;
        acp_envelope mine = {.source = 1, .tag = 5}, want = {.tag = 5, .size = UINT64_MAX}, got;
        for (uint64_t i = 0; i < 5; i++)
            words[i] = crash_random(&state) << crash_random(&state) % 40;
        ring->owner = 3;
        all->owned |= 4;
        if (round % 2) { /* one that seems to be full */
            ring->taken = pair_ring_sealed(crash_random(&state) >> 20);
            ring->lines = all->rings[1].lines;
        }
        if (acp_short_look(s.actor.engine, &(acp_envelope){.source = 2, .tag = ACP_ANY}, &m))
            CHECK(m.envelope.size <= ACP_SHORT_MOST);
        acp_request *r;
        want.source = round % 4 < 2 ? ACP_ANY : 1; /* who wants none of that sender's does not mind */
        send_it(&from, mine, round * 5 + 1);
        int rc = acp_receive(s.actor.lane, &want, NULL, &r);
        CHECK(rc == ACP_OK || (rc == ACP_E_DAMAGED && want.source == ACP_ANY));
        damaged += rc != ACP_OK;
        memset(ring, 0, sizeof *ring);
        all->owned &= ~(uint64_t)4;
        if (rc != ACP_OK)
            CHECK(acp_receive(s.actor.lane, &want, NULL, &r) == ACP_OK);
        CHECK(acp_request_done(r) && acp_request_end(s.actor.lane, r, &got) == ACP_OK);
        CHECK(got.note == round * 5 + 1 && !(all->rings[1].taken & RING_BUSY));
    }
    CHECK(damaged > 250);
    sender_end(&from);
    close_mailbox(&s, fd);
}

/* Without room in the heap its sender goes to the mailbox, and comes again later. */
static void a_ring_needs_memory(void)
{
    struct stage s;
    struct sender from;
    struct said_all all = {.count = 0};
    acp_envelope m = {.source = 1, .tag = 5};
    uint64_t block[64], taken = 0, ringed = 0;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, 1);
    s.actor.heap.head->limit = s.actor.heap.head->committed +
                                    (s.actor.heap.head->pinned + 1) * GRANULE;
    for (uint64_t size = (uint64_t)1 << 20; size >= 8192; size /= 2)
        while (taken < 64 && heap_take(s.actor.lane, &s.actor.heap, size, &block[taken], 0) == ACP_OK)
            taken++;
    CHECK(taken && taken < 64 && !by_ring(&from, m, 1) && !box_of(&s)->rings[MAIL_USERS].rings[1].block);
    while (taken)
        CHECK(heap_give(s.actor.lane, &s.actor.heap, &block[--taken], 0) == ACP_OK);
    for (uint64_t n = 1; n < 1000 && !ringed; n++)
        ringed = by_ring(&from, m, 1) ? n : 0;
    CHECK(ringed > 100);
    all.list[all.count++] = (struct said){m, 1};
    CHECK(take_from_ring(&s, &all, &m));
    sender_end(&from);
    close_mailbox(&s, fd);
}

enum { EACH = 10000, RANKS = 3 };

static uint64_t due[RANKS]; /* the number of the next message of each */

static void post_one(acp_lane *lane, uint64_t number)
{
    unsigned char data[LONGEST] = {0};
    acp_envelope m = {.size = size_of(number), .note = number, .tag = (int64_t)(number % 2)};
    acp_request *r = NULL;
    int rc;
    paint_it(data, number);
    if (m.size <= ACP_SHORT_MOST && acp_send_short(lane, 0, &m, data))
        return;
    while ((rc = acp_send(lane, 0, &m, data, &r)) == ACP_E_BUSY)
        sched_yield();
    CHECK(rc == ACP_OK);
    if (r) {
        CHECK(acp_request_wait(lane->engine, r, ACP_FOREVER) == ACP_OK);
        CHECK(acp_request_end(lane, r, NULL) == ACP_OK);
    }
}

static uint64_t left_of(int64_t source)
{
    return source != ACP_ANY ? EACH - due[source] + 1 : left_of(1) + left_of(2);
}

static void is_due(const acp_envelope *got, const void *data)
{
    CHECK(got->source == 1 || got->source == 2);
    CHECK(got->note == due[got->source]++ && got->size == size_of(got->note) && is_it(data, got->note));
}

static acp_request *wanted(acp_lane *lane, int64_t source, unsigned char *data)
{
    acp_envelope want = {.source = source, .tag = ACP_ANY, .size = LONGEST};
    acp_request *r;
    int rc;
    while ((rc = acp_receive(lane, &want, data, &r)) == ACP_E_BUSY)
        sched_yield();
    CHECK(rc == ACP_OK);
    return r;
}

static void wait_for(acp_lane *lane, acp_request *r, const unsigned char *data)
{
    acp_envelope got;
    CHECK(acp_request_wait(lane->engine, r, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(lane, r, &got) == ACP_OK);
    is_due(&got, data);
}

/* Some at once, some that are posted before they come, some after a probe: what is asleep is woken. */
static void receive_some(acp_lane *lane, uint32_t random, int64_t source)
{
    unsigned char data[3][LONGEST];
    acp_request *r[3];
    acp_envelope want = {.source = source, .tag = ACP_ANY}, found;
    acp_short m;
    unsigned char found_data[ACP_SHORT_MOST];
    if (random % 4 == 0) {
        if (acp_short_soon(lane->engine, &want, random % 8 == 0) == ACP_OK &&
            acp_short_look(lane->engine, &want, &m) && acp_short_take(&m, found_data))
            is_due(&m.envelope, found_data);
    } else if (random % 4 == 1 && left_of(source) >= 3) {
        for (uint32_t i = 0; i < 3; i++)
            r[i] = wanted(lane, source, data[i]);
        for (uint32_t i = 0; i < 3; i++)
            wait_for(lane, r[i], data[i]);
    } else {
        if (random % 4 == 2)
            CHECK(acp_probe_wait(lane->engine, &want, &found, NULL, ACP_FOREVER) == ACP_OK);
        r[0] = wanted(lane, source, data[0]);
        wait_for(lane, r[0], data[0]);
    }
}

static void all_send_to_one(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t random = 5 + rank;
    (void)c;
    for (uint64_t number = 1; rank && number <= EACH; number++) {
        random = random * 1664525u + 1013904223u;
        if (random >> 24 == 0)
            usleep(random >> 16 & 127);
        if (random >> 25 == 1) {
            atomic_fetch_or(&e->doors->looks, LOOK_SENT); /* as if the receiver asked */
            doorbell_kick(e);
        }
        post_one(lane, number);
    }
    while (!rank && left_of(ACP_ANY)) {
        random = random * 1664525u + 1013904223u;
        int64_t source = (random >> 8) % 3 ? (int64_t)(1 + (random >> 8) % 2) : ACP_ANY;
        if (left_of(source))
            receive_some(lane, random >> 16, source);
        if (random >> 25 == 1)
            e->up->doubt(e); /* all is as it should be */
    }
    CHECK(!e->mail.damages);
    CHECK(acp_barrier(e, NULL, 0, 1, ACP_FOREVER) == ACP_OK); /* and nobody is in finalize */
}

static void by_every_road(void)
{
    for (uint32_t way = 0; way < CLUSTER_WAYS; way++) {
        struct cluster c;
        cluster_start_by(&c, way);
        due[1] = due[2] = 1;
        cluster_run(&c, all_send_to_one);
        cluster_stop(&c);
    }
}

int main(void)
{
    against_a_model();
    a_full_ring_is_brought_first();
    requests_are_used_again();
    owners_fit_their_places();
    damage_is_noticed_and_passed();
    words_of_the_sender();
    a_ring_needs_memory();
    a_block_that_is_none();
    garbage_is_not_believed();
    by_every_road();
    return 0;
}
