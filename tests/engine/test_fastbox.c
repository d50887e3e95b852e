/* Fast boxes: each message comes once, in the order of its sender, by its box or by the mailbox, whoever looks and
 * whoever is late; and garbage in a box is not believed. */
#include "boxing.h"
#include "cluster.h"
#include "messages/fastbox.h"
#include "messages/request.h"

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
    uint64_t state = 4711, boxed = 0, taken = 0;
    int fd = open_mailbox(&s);
    for (uint32_t i = 0; i < SOURCES; i++)
        sender_start(&senders[i], fd, i);
    for (uint64_t number = 1; number <= NUMBERS; number++) {
        uint64_t what = crash_random(&state) % (number / 32 % 2 ? 12 : 16); /* half of the time boxes alone */
        acp_envelope m = any_envelope(&state, false), want = any_envelope(&state, true);
        if (number % 32 == 0) /* boxes are used again when nothing is kept */
            while (all.count)
                receive_it(&s, &all, (acp_envelope){.context = all.list[0].envelope.context, .source = ACP_ANY,
                                                    .tag = ACP_ANY});
        if (what < 6 && all.count < MOST - 1) {
            boxed += send_it(&senders[m.source], m, number);
            all.list[all.count++] = (struct said){m, number};
        } else if (what < 12) {
            taken += take_from_box(&s, &all, &want);
        } else if (what < 14) {
            receive_it(&s, &all, want);
        } else if (what < 15) {
            meet_it(&s, &senders[m.source], &m, number);
        } else {
            probe_it(&s, &all, &want);
        }
    }
    printf("fast boxes: %lu of %u messages, %lu taken from there\n", (unsigned long)boxed, NUMBERS, (unsigned long)taken);
    CHECK(boxed > NUMBERS / 20 && taken > NUMBERS / 200);
    CHECK(fast_any(&s.actor.heap) || check_lists_of(&s.actor.heap) == all.count);
    requests_close(s.actor.engine);
    for (uint32_t i = 0; i < SOURCES; i++)
        sender_end(&senders[i]);
    actor_end(&s.actor);
    close(fd);
}

/* More than there are slots, and those that come after a long one. */
static void a_full_box_is_brought_first(void)
{
    struct stage s;
    struct sender from;
    acp_request *r;
    acp_envelope m = {.source = 1, .tag = 3}, got;
    uint64_t boxed = 0;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, 1);
    for (uint64_t number = 1; number <= 3 * FAST_SLOTS; number++)
        boxed += send_it(&from, m, number * 5 + 1);
    CHECK(boxed == FAST_SLOTS && box_of(&s)->kept == 3 * FAST_SLOTS);
    for (uint64_t number = 1; number <= 3 * FAST_SLOTS; number++) {
        CHECK(acp_receive(s.actor.lane, &(acp_envelope){.source = 1, .tag = 3, .size = UINT64_MAX}, NULL, &r) == ACP_OK);
        CHECK(acp_request_end(s.actor.lane, r, &got) == ACP_OK && got.note == number * 5 + 1);
    }
    CHECK(send_it(&from, m, 1)); /* and then it is used again */
    sender_end(&from);
    close_mailbox(&s, fd);
}

/* Words of which nothing is true: others get through, and nothing is read that is not there. */
static void garbage_is_not_believed(void)
{
    struct stage s;
    struct sender from;
    acp_fast m;
    uint64_t state = 99;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, 1);
    struct fastboxes *all = &box_of(&s)->fast;
    for (uint32_t round = 0; round < 2000; round++) {
        uint64_t *words = (uint64_t *)(void *)&all->boxes[2];
        acp_envelope mine = {.source = 1, .tag = 5}, want = {.source = 1, .tag = 5, .size = UINT64_MAX}, got;
        for (uint64_t i = 0; i < sizeof all->boxes[2] / 8; i++)
            words[i] = crash_random(&state) << crash_random(&state) % 40;
        all->boxes[2].owner = 3;
        all->owned |= crash_random(&state) << 32 | 4;
        if (round % 2) /* one that seems to be full */
            all->boxes[2].slots[all->boxes[2].taken % FAST_SLOTS].stamp = (all->boxes[2].taken + 1) << 8 | 255;
        if (acp_fast_look(s.actor.engine, &(acp_envelope){.source = 2, .tag = ACP_ANY}, &m))
            CHECK(m.envelope.size <= ACP_FAST_MOST);
        acp_request *r;
        send_it(&from, mine, round * 5 + 1);
        CHECK(acp_receive(s.actor.lane, &want, NULL, &r) == ACP_OK && acp_request_done(r));
        CHECK(acp_request_end(s.actor.lane, r, &got) == ACP_OK && got.note == round * 5 + 1);
        CHECK(!(all->boxes[2].taken & FAST_BUSY));
    }
    sender_end(&from);
    close_mailbox(&s, fd);
}

enum { EACH = 20000, RANKS = 3 };

static uint64_t due[RANKS]; /* the number of the next message of each */

static void post_one(acp_lane *lane, uint64_t number)
{
    unsigned char data[LONGEST] = {0};
    acp_envelope m = {.size = size_of(number), .note = number, .tag = (int64_t)(number % 2)};
    acp_request *r = NULL;
    int rc;
    paint_it(data, number);
    if (m.size <= ACP_FAST_MOST && acp_send_fast(lane, 0, &m, data))
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
    acp_fast m;
    if (random % 4 == 0) {
        if (acp_fast_soon(lane->engine, &want, random % 8 == 0) == ACP_OK &&
            acp_fast_look(lane->engine, &want, &m) && acp_fast_take(&m))
            is_due(&m.envelope, m.data);
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
        post_one(lane, number);
    }
    while (!rank && left_of(ACP_ANY)) {
        random = random * 1664525u + 1013904223u;
        int64_t source = (random >> 8) % 3 ? (int64_t)(1 + (random >> 8) % 2) : ACP_ANY;
        if (left_of(source))
            receive_some(lane, random >> 16, source);
    }
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
    a_full_box_is_brought_first();
    garbage_is_not_believed();
    by_every_road();
    return 0;
}
