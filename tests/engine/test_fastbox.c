/* Fast boxes: each message comes once, in the order of its sender, by its box or by the mailbox, whoever looks and
 * whoever is late; who dies in between loses none of them, and a box is whatever a dead process has left there. */
#include "mail_stage.h"

#include "cluster.h"
#include "fastbox.h"

enum { NUMBERS = 100000, LONGEST = 400 };

/* Another process that reaches the mailbox of the stage. */
struct sender {
    struct actor actor;
    struct peer to, own;
};

static void sender_start(struct sender *s, int fd, uint32_t rank)
{
    memset(s, 0, sizeof *s);
    actor_start(&s->actor, fd);
    acp_engine *e = s->actor.engine;
    e->rank = e->self = rank;
    e->procs = SOURCES;
    e->doors = &doors;
    e->own = &s->own;
    e->door_fd = e->epoll_fd = -1;
    e->fenced = true;
    pthread_mutex_init(&e->bell, NULL);
    s->to.control = e->control;
    s->to.heap = &s->actor.heap;
    s->to.relation = RELATION_NODE;
    s->to.door_fd = -1;
    s->to.doors = &doors;
}

/* A mailbox that has letters, without which no box is used. */
static int open_mailbox(struct stage *s)
{
    int fd = crash_memory(CRASH_SPAN);
    acp_request *r;
    stage_start(s, fd);
    CHECK(acp_receive(s->actor.lane, &(acp_envelope){.size = 8}, NULL, &r) == ACP_OK);
    CHECK(acp_request_cancel(s->actor.lane, r) == ACP_OK);
    CHECK(acp_request_end(s->actor.lane, r, NULL) == ACP_E_CANCELLED);
    return fd;
}

static void sender_end(struct sender *s)
{
    actor_end(&s->actor);
}

/* A few are too long for a box. */
static uint64_t size_of(uint64_t number)
{
    return number % 5 ? number % (ACP_FAST_MOST + 1) : ACP_FAST_MOST + 1 + number % 100;
}

static void paint_it(unsigned char *p, uint64_t number)
{
    for (uint64_t i = 0; i < size_of(number); i++)
        p[i] = (unsigned char)(number * 13 + i);
}

static bool is_it(const void *data, uint64_t number)
{
    unsigned char right[LONGEST] = {0};
    paint_it(right, number);
    return size_of(number) == 0 || memcmp(data, right, size_of(number)) == 0;
}

static bool by_box(struct sender *s, acp_envelope m, uint64_t number)
{
    unsigned char data[LONGEST] = {0};
    paint_it(data, number);
    m.size = size_of(number);
    m.note = number;
    return m.size <= ACP_FAST_MOST && fast_put(s->actor.lane, &s->to, &m, data);
}

/* As send.c does it. */
static bool send_it(struct sender *s, acp_envelope m, uint64_t number)
{
    unsigned char data[LONGEST] = {0};
    struct landing l;
    if (by_box(s, m, number))
        return true;
    paint_it(data, number);
    m.size = size_of(number);
    m.note = number;
    if (fast_before(s->actor.engine, &s->to))
        CHECK(fast_bring(s->actor.lane, &s->to) == ACP_OK);
    CHECK(mail_arrive(s->actor.lane, &s->to, &m, data, true, s->actor.engine->self, &l) == ACP_OK);
    return false;
}

struct said {
    acp_envelope envelope;
    uint64_t number;
};

/* What has been sent and not received, in that order. */
struct said_all {
    struct said list[MOST];
    uint32_t count;
};

static bool fits(const acp_envelope *want, const acp_envelope *is)
{
    return want->context == is->context && (want->source == ACP_ANY || want->source == is->source) &&
           (want->tag == ACP_ANY || want->tag == is->tag);
}

/* It is the first one of its source that fits. */
static void must_be(struct said_all *all, const acp_envelope *want, const acp_envelope *got)
{
    for (uint32_t i = 0; i < all->count; i++) {
        if (!fits(want, &all->list[i].envelope) || all->list[i].envelope.source != got->source)
            continue;
        CHECK(all->list[i].number == got->note && all->list[i].envelope.tag == got->tag);
        memmove(&all->list[i], &all->list[i + 1], (--all->count - i) * sizeof *all->list);
        return;
    }
    CHECK(!"a message that was not sent");
}

static bool any_fits(const struct said_all *all, const acp_envelope *want)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (fits(want, &all->list[i].envelope))
            return true;
    return false;
}

static bool take_from_box(struct stage *s, struct said_all *all, const acp_envelope *want)
{
    acp_fast m;
    if (!acp_fast_look(s->actor.engine, want, &m))
        return false;
    CHECK(acp_fast_take(&m) && !acp_fast_take(&m));
    CHECK(is_it(m.data, m.envelope.note));
    must_be(all, want, &m.envelope);
    return true;
}

static void receive_it(struct stage *s, struct said_all *all, acp_envelope want)
{
    acp_request *r;
    acp_envelope got;
    bool is = any_fits(all, &want);
    want.size = UINT64_MAX;
    CHECK(acp_receive(s->actor.lane, &want, NULL, &r) == ACP_OK);
    CHECK(acp_request_done(r) == is && !fast_any(&s->actor.heap));
    if (!is) {
        CHECK(acp_request_cancel(s->actor.lane, r) == ACP_OK);
        CHECK(acp_request_end(s->actor.lane, r, NULL) == ACP_E_CANCELLED);
        return;
    }
    CHECK(acp_request_look(r, &got) == ACP_OK && is_it(acp_request_data(s->actor.lane, r), got.note));
    CHECK(acp_request_end(s->actor.lane, r, NULL) == ACP_OK);
    must_be(all, &want, &got);
}

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
    requests_close(s.actor.engine);
    sender_end(&from);
    actor_end(&s.actor);
    close(fd);
}

/* What the other side does at one instant of a call. */
static struct stage *owner;
static struct sender *other;
static uint64_t instant;
static bool boxed;
static acp_request *begun;
static const acp_envelope first = {.source = 1, .tag = 1}, second = {.source = 1, .tag = 2};

static void they_send(void)
{
    if (instant && --instant == 0)
        boxed = by_box(other, first, 1);
}

static void they_post_now(void)
{
    void (*then)(void) = at_each_store;
    acp_envelope want = first;
    want.size = UINT64_MAX;
    at_each_store = NULL;
    CHECK(acp_receive(owner->actor.lane, &want, NULL, &begun) == ACP_OK);
    at_each_store = then;
}

static void they_post(void)
{
    if (instant && --instant == 0)
        they_post_now();
}

static void they_look(void)
{
    acp_envelope found;
    if (instant && --instant == 0)
        CHECK(acp_probe(owner->actor.lane, &second, &found, NULL) == ACP_E_HANDLE);
}

static acp_envelope end_of(struct stage *s, acp_request *r)
{
    acp_envelope got;
    CHECK(acp_request_done(r) && acp_request_end(s->actor.lane, r, &got) == ACP_OK);
    return got;
}

/* Its sender sees no receive yet, or its receiver sees no message: not both. */
static void a_receive_is_posted_meanwhile(struct stage *s, struct sender *from)
{
    uint64_t instants = 0;
    acp_envelope want = first;
    want.size = UINT64_MAX;
    do { /* the mailbox is held, so that only a box can be filled then */
        at_each_store = they_send;
        instant = ++instants;
        boxed = false;
        CHECK(acp_receive(s->actor.lane, &want, NULL, &begun) == ACP_OK);
        at_each_store = NULL;
        if (!boxed)
            CHECK(!acp_request_done(begun) && !send_it(from, first, 1));
        CHECK(end_of(s, begun).note == 1);
    } while (!instant);
    CHECK(instants > 10);
    for (instants = 1; instants < 4; instants++) {
        at_each_store = they_post;
        instant = instants;
        CHECK(send_it(from, first, 1) == (instants > 1)); /* no third instant is in it */
        at_each_store = NULL;
        if (instants == 3)
            they_post();
        CHECK(end_of(s, begun).note == 1);
    }
}

/* A look for something else has taken what was before it to the mailbox. */
static void what_is_kept_was_before(struct stage *s, struct sender *from)
{
    acp_fast m;
    acp_envelope want = first;
    want.size = UINT64_MAX;
    CHECK(send_it(from, first, 1));
    at_each_store = they_look;
    instant = 1;
    CHECK(send_it(from, first, 2));
    at_each_store = NULL;
    CHECK(box_of(s)->kept == 1 && fast_any(&s->actor.heap));
    CHECK(!acp_fast_look(s->actor.engine, &first, &m));
    for (uint64_t number = 1; number <= 2; number++) {
        CHECK(acp_receive(s->actor.lane, &want, NULL, &begun) == ACP_OK);
        CHECK(end_of(s, begun).note == number);
    }
}

static void they_post_and_take(void)
{
    acp_fast m;
    if (!instant)
        return;
    if (--instant == 1)
        they_post_now();
    else if (instant == 0)
        CHECK(!acp_fast_look(owner->actor.engine, &first, &m));
}

/* Its sender, which had looked before that, has not looked again. */
static void a_receive_that_is_posted_comes_first(struct stage *s, struct sender *from)
{
    at_each_store = they_post_and_take;
    instant = 2;
    CHECK(!send_it(from, first, 1));
    at_each_store = NULL;
    CHECK(end_of(s, begun).note == 1);
}

static void they_probe_and_bring(void)
{
    acp_envelope found, want = second;
    want.size = UINT64_MAX;
    if (!instant)
        return;
    if (--instant == 1) { /* as acp_probe_wait, which sleeps then */
        __atomic_fetch_add(&box_of(owner)->probing, 1, __ATOMIC_SEQ_CST);
        CHECK(acp_probe(owner->actor.lane, &first, &found, NULL) == ACP_E_HANDLE);
    } else if (instant == 0) { /* another thread receives something else */
        at_each_store = NULL;
        CHECK(acp_receive(owner->actor.lane, &want, NULL, &begun) == ACP_OK && !acp_request_done(begun));
    }
}

static uint32_t rings(void)
{
    return owner->actor.engine->rings + other->actor.engine->rings;
}

static void a_probe_that_sleeps_is_woken(struct stage *s, struct sender *from)
{
    acp_request *r;
    acp_envelope want = first;
    uint32_t before = rings();
    want.size = UINT64_MAX;
    at_each_store = they_probe_and_bring;
    instant = 2;
    CHECK(send_it(from, first, 1) && box_of(s)->kept == 1 && rings() > before);
    __atomic_fetch_sub(&box_of(s)->probing, 1, __ATOMIC_SEQ_CST);
    CHECK(acp_request_cancel(s->actor.lane, begun) == ACP_OK);
    CHECK(acp_request_end(s->actor.lane, begun, NULL) == ACP_E_CANCELLED);
    CHECK(acp_receive(s->actor.lane, &want, NULL, &r) == ACP_OK && end_of(s, r).note == 1);
}

static void at_the_same_time(void)
{
    struct stage s;
    struct sender from;
    int fd = open_mailbox(&s);
    sender_start(&from, fd, 1);
    owner = &s;
    other = &from;
    a_receive_is_posted_meanwhile(&s, &from);
    what_is_kept_was_before(&s, &from);
    a_receive_that_is_posted_comes_first(&s, &from);
    a_probe_that_sleeps_is_woken(&s, &from);
    requests_close(s.actor.engine);
    sender_end(&from);
    actor_end(&s.actor);
    close(fd);
}

/* At each store of what brings them: all are there afterwards, once, for the next one to enter. */
static void one_that_brings_them_dies(void)
{
    struct stage s;
    uint64_t deaths = 0, fault = 0;
    bool died = true;
    int fd = open_mailbox(&s);
    while (died) {
        struct said_all all = {.count = 0};
        acp_envelope m = {.source = 1};
        pid_t child = child_start();
        if (!child) {
            struct sender from;
            sender_start(&from, fd, 1);
            for (uint64_t number = 1; number <= FAST_SLOTS; number++)
                CHECK(by_box(&from, m, number * 5 + 1));
            fault_left = fault + 1;
            CHECK(fast_bring(from.actor.lane, &from.to) == ACP_OK);
            _exit(0);
        }
        died = was_killed(child);
        fault++;
        deaths += died;
        for (uint64_t number = 1; number <= FAST_SLOTS; number++)
            all.list[all.count++] = (struct said){m, number * 5 + 1};
        if (fault % 2 == 0)
            take_from_box(&s, &all, &(acp_envelope){.source = 1});
        while (all.count)
            receive_it(&s, &all, (acp_envelope){.source = fault % 3 ? 1 : ACP_ANY});
        receive_it(&s, &all, (acp_envelope){.source = ACP_ANY, .tag = ACP_ANY});
        check_section(&box_of(&s)->section);
        CHECK(check_lists_of(&s.actor.heap) == 0);
        s.sources[1].lost = s.sources[1].left = true;
        struct hold hold;
        CHECK(section_enter(&hold, s.actor.lane, &box_of(&s)->section, &s.actor.heap, ACP_FOREVER) == ACP_OK);
        fast_release(&hold);
        section_leave(&hold);
        CHECK(box_of(&s)->fast.owned == 0 && box_of(&s)->fast.boxes[1].owner == 0);
        s.sources[1].lost = s.sources[1].left = false;
    }
    CHECK(deaths > 20);
    printf("fast boxes: %lu senders killed\n", (unsigned long)deaths);
    requests_close(s.actor.engine);
    actor_end(&s.actor);
    close(fd);
}

/* Another thread of its process fills a box of which it has brought the first message, as it believes. */
static void they_fill(void)
{
    struct mailbox *box = box_of(owner);
    if (box->fast.boxes[1].taken != (FAST_BUSY | 1))
        return;
    uint64_t kept = box->kept;
    at_each_store = NULL;
    box->kept = 0; /* as that thread had seen it */
    by_box(other, first, 1);
    box->kept = kept;
    kill(getpid(), SIGKILL);
}

static void what_may_be_taken_back_is_not_overwritten(void)
{
    struct stage s;
    struct said_all all = {.count = 0};
    acp_envelope m = {.source = 1};
    int fd = open_mailbox(&s);
    pid_t child = child_start();
    if (!child) {
        struct sender from;
        sender_start(&from, fd, 1);
        for (uint64_t number = 1; number <= FAST_SLOTS; number++)
            CHECK(by_box(&from, m, number * 5 + 1));
        owner = &s;
        other = &from;
        at_each_store = they_fill;
        fast_bring(from.actor.lane, &from.to);
        _exit(0);
    }
    CHECK(was_killed(child));
    for (uint64_t number = 1; number <= FAST_SLOTS; number++)
        all.list[all.count++] = (struct said){m, number * 5 + 1};
    while (all.count)
        receive_it(&s, &all, m);
    requests_close(s.actor.engine);
    actor_end(&s.actor);
    close(fd);
}

/* It came after the boxes were cleared, and before its sender had ended; the box is released the next time. */
static void what_came_last_is_not_released(void)
{
    struct stage s;
    struct sender from;
    struct hold hold;
    acp_request *r;
    acp_envelope want = {.source = 1, .size = UINT64_MAX};
    int fd = open_mailbox(&s);
    sender_start(&from, fd, 1);
    CHECK(by_box(&from, want, 1));
    s.sources[1].lost = s.sources[1].left = true;
    for (uint32_t times = 0; times < 2; times++) {
        CHECK(section_enter(&hold, s.actor.lane, &box_of(&s)->section, &s.actor.heap, ACP_FOREVER) == ACP_OK);
        fast_release(&hold);
        CHECK((box_of(&s)->fast.owned == 0) == (times == 1) && s.actor.engine->mail_losses == 1);
        CHECK(fast_clear(&hold) == ACP_OK);
        section_leave(&hold);
    }
    CHECK(acp_receive(s.actor.lane, &want, NULL, &r) == ACP_OK && end_of(&s, r).note == 1);
    requests_close(s.actor.engine);
    sender_end(&from);
    actor_end(&s.actor);
    close(fd);
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
    requests_close(s.actor.engine);
    sender_end(&from);
    actor_end(&s.actor);
    close(fd);
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
    CHECK(acp_barrier(e, NULL, 0, 5, ACP_FOREVER) == ACP_OK);
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
    at_the_same_time();
    garbage_is_not_believed();
    by_every_road();
    what_may_be_taken_back_is_not_overwritten();
    what_came_last_is_not_released();
    one_that_brings_them_dies();
    return 0;
}
