/* Pair rings, where one side does something at each instant of a call of the other, and where a process is killed: no
 * message is lost, and who sleeps is woken. */
#include "support/ringing.h"

/* What the other side does at one instant of a call. */
static struct stage *owner;
static struct sender *other;
static uint64_t instant;
static bool ringed;
static acp_request *begun;
static const acp_envelope first = {.source = 1, .tag = 1}, second = {.source = 1, .tag = 2};

static void they_send(void)
{
    if (instant && --instant == 0)
        ringed = by_ring(other, first, 1);
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
    CHECK(by_ring(from, first, 1) && acp_receive(s->actor.lane, &want, NULL, &begun) == ACP_OK);
    CHECK(end_of(s, begun).note == 1);
    do { /* the mailbox is held, so that only the ring can be filled then */
        at_each_store = they_send;
        instant = ++instants;
        ringed = false;
        CHECK(acp_receive(s->actor.lane, &want, NULL, &begun) == ACP_OK);
        at_each_store = NULL;
        if (!ringed)
            CHECK(!acp_request_done(begun) && !send_it(from, first, 1));
        CHECK(end_of(s, begun).note == 1);
    } while (!instant);
    CHECK(instants > 10);
    for (instants = 1; instants < 5; instants++) {
        at_each_store = they_post;
        instant = instants;
        CHECK(send_it(from, first, 1) == (instants > 2)); /* no fourth instant is in it */
        at_each_store = NULL;
        if (instants == 4)
            they_post();
        CHECK(end_of(s, begun).note == 1);
    }
}

/* A look for something else has taken what was before it to the mailbox. */
static void what_is_kept_was_before(struct stage *s, struct sender *from)
{
    acp_short m;
    acp_envelope want = first;
    want.size = UINT64_MAX;
    CHECK(send_it(from, first, 1));
    at_each_store = they_look;
    instant = 1;
    CHECK(send_it(from, first, 2));
    at_each_store = NULL;
    CHECK(mailbox_kept(box_of(s)) == 1 && pair_ring_any(&s->actor.heap, MAIL_USERS));
    CHECK(!acp_short_look(s->actor.engine, &first, &m));
    for (uint64_t number = 1; number <= 2; number++) {
        CHECK(acp_receive(s->actor.lane, &want, NULL, &begun) == ACP_OK);
        CHECK(end_of(s, begun).note == number);
    }
}

static void they_post_and_take(void)
{
    acp_short m;
    if (!instant)
        return;
    if (--instant == 2)
        they_post_now();
    else if (instant == 0)
        CHECK(!acp_short_look(owner->actor.engine, &first, &m));
}

/* Its sender, which had looked before that, has not looked again. */
static void a_receive_that_is_posted_comes_first(struct stage *s, struct sender *from)
{
    at_each_store = they_post_and_take;
    instant = 3;
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
    if (--instant == 2) { /* as acp_probe_wait, which sleeps then */
        __atomic_fetch_add(&box_of(owner)->probing, 1, __ATOMIC_SEQ_CST);
        CHECK(acp_probe(owner->actor.lane, &first, &found, NULL) == ACP_E_HANDLE);
    } else if (instant == 0) { /* another thread receives something else */
        at_each_store = NULL;
        CHECK(acp_receive(owner->actor.lane, &want, NULL, &begun) == ACP_OK && !acp_request_done(begun));
    }
}

static uint32_t rings(void)
{
    return owner->actor.engine->progress.rings + other->actor.engine->progress.rings;
}

static void a_probe_that_sleeps_is_woken(struct stage *s, struct sender *from)
{
    acp_request *r;
    acp_envelope want = first;
    uint32_t before = rings();
    want.size = UINT64_MAX;
    at_each_store = they_probe_and_bring;
    instant = 3;
    CHECK(send_it(from, first, 1) && mailbox_kept(box_of(s)) == 1 && rings() > before);
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
    sender_end(&from);
    close_mailbox(&s, fd);
}

/* The ring of a sender that has died: its block is the heap's again. */
static void release_first(struct stage *s)
{
    struct hold hold;
    struct pair_rings *all = &box_of(s)->rings[MAIL_USERS];
    s->sources[1].lost = s->sources[1].left = true;
    CHECK(transaction_enter(&hold, s->actor.lane, &box_of(s)->section, &s->actor.heap, ACP_FOREVER) == ACP_OK);
    pair_ring_deliver_release(&hold, MAIL_USERS);
    transaction_leave(&hold);
    CHECK(all->owned == 0 && all->rings[1].owner == 0 && !all->rings[1].lines && !all->rings[1].block);
    s->sources[1].lost = s->sources[1].left = false;
}

/* At each store of what fills a ring, the first of which take its memory: what it has said is sent is there, and
 * nothing of what it was about to send. */
static void one_that_fills_it_dies(void)
{
    struct stage s;
    struct record *sent = shared_memory(sizeof *sent);
    uint64_t deaths = 0, blocks;
    bool died = true;
    int fd = open_mailbox(&s);
    blocks = check_heap(&s.actor);
    while (died) {
        struct said_all all = {.count = 0};
        acp_envelope m = {.source = 1};
        sent->begun = sent->ended = 0;
        pid_t child = child_start();
        if (!child) {
            struct sender from;
            sender_start(&from, fd, 1);
            fault_left = deaths + 1;
            for (uint64_t n = 1; n <= 4; n++) {
                sent->begun = n;
                CHECK(by_ring(&from, m, nth_of_ring(n)));
                sent->ended = n;
            }
            _exit(0);
        }
        died = was_killed(child);
        deaths += died;
        for (uint64_t n = 1; n <= sent->ended; n++)
            all.list[all.count++] = (struct said){m, nth_of_ring(n)};
        while (all.count)
            CHECK(take_from_ring(&s, &all, &m));
        if (sent->begun > sent->ended) /* it may have been all there */
            all.list[all.count++] = (struct said){m, nth_of_ring(sent->begun)};
        CHECK(!take_from_ring(&s, &all, &m) || all.count == 0);
        release_first(&s);
        CHECK(check_heap(&s.actor) == blocks);
    }
    CHECK(deaths > 20);
    printf("pair rings: %lu senders killed while they fill\n", (unsigned long)deaths);
    close_mailbox(&s, fd);
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
            fill_ring(&from, m);
            fault_left = fault + 1;
            CHECK(pair_ring_deliver_own(from.actor.lane, &from.to, MAIL_USERS) == ACP_OK);
            _exit(0);
        }
        died = was_killed(child);
        fault++;
        deaths += died;
        for (uint64_t n = 1; n <= ring_holds(); n++)
            all.list[all.count++] = (struct said){m, nth_of_ring(n)};
        if (fault % 2 == 0)
            take_from_ring(&s, &all, &(acp_envelope){.source = 1});
        while (all.count)
            receive_it(&s, &all, (acp_envelope){.source = fault % 3 ? 1 : ACP_ANY});
        receive_it(&s, &all, (acp_envelope){.source = ACP_ANY, .tag = ACP_ANY});
        check_section(&box_of(&s)->section);
        CHECK(check_lists_of(&s.actor.heap) == 0);
        release_first(&s);
    }
    CHECK(deaths > 20);
    printf("pair rings: %lu senders killed while they bring\n", (unsigned long)deaths);
    close_mailbox(&s, fd);
}

/* The number of a message that takes so many lines. */
static uint64_t of_lines(uint64_t count)
{
    uint64_t n = 1;
    while (pair_ring_count(size_of(n)) != count)
        n++;
    return n;
}

/* What fills it to its last line, behind those that fill_ring leaves there. */
static uint64_t last_of_ring(void)
{
    uint64_t left = RING_LINES;
    for (uint64_t n = 1; n <= ring_holds(); n++)
        left -= pair_ring_count(size_of(nth_of_ring(n)));
    return of_lines(left);
}

/* Another thread of its process fills a ring of which it has brought the first message, as it believes. */
static void they_fill(void)
{
    struct mailbox *box = box_of(owner);
    if (box->rings[MAIL_USERS].rings[1].taken != (RING_BUSY | pair_ring_sealed(pair_ring_count(size_of(nth_of_ring(1))))))
        return;
    uint64_t kept = box->kept[MAIL_USERS];
    at_each_store = NULL;
    box->kept[MAIL_USERS] = 0; /* as that thread had seen it */
    by_ring(other, first, of_lines(1));
    box->kept[MAIL_USERS] = kept;
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
        fill_ring(&from, m);
        CHECK(by_ring(&from, m, last_of_ring()));
        owner = &s;
        other = &from;
        at_each_store = they_fill;
        pair_ring_deliver_own(from.actor.lane, &from.to, MAIL_USERS);
        _exit(0);
    }
    CHECK(was_killed(child));
    for (uint64_t n = 1; n <= ring_holds(); n++)
        all.list[all.count++] = (struct said){m, nth_of_ring(n)};
    all.list[all.count++] = (struct said){m, last_of_ring()};
    while (all.count)
        receive_it(&s, &all, m);
    close_mailbox(&s, fd);
}

/* It came after the rings were cleared, and before its sender had ended; the ring is released the next time. */
static void what_came_last_is_not_released(void)
{
    struct stage s;
    struct sender from;
    struct hold hold;
    acp_request *r;
    acp_envelope want = {.source = 1, .size = UINT64_MAX};
    int fd = open_mailbox(&s);
    sender_start(&from, fd, 1);
    CHECK(by_ring(&from, want, 1));
    s.sources[1].lost = s.sources[1].left = true;
    for (uint32_t times = 0; times < 2; times++) {
        CHECK(transaction_enter(&hold, s.actor.lane, &box_of(&s)->section, &s.actor.heap, ACP_FOREVER) == ACP_OK);
        pair_ring_deliver_release(&hold, MAIL_USERS);
        CHECK((box_of(&s)->rings[MAIL_USERS].owned == 0) == (times == 1) && s.actor.engine->mail.losses == 1);
        CHECK(pair_ring_deliver_all(&hold, MAIL_USERS, NULL) == ACP_OK);
        transaction_leave(&hold);
    }
    CHECK(acp_receive(s.actor.lane, &want, NULL, &r) == ACP_OK && end_of(&s, r).note == 1);
    sender_end(&from);
    close_mailbox(&s, fd);
}

int main(void)
{
    at_the_same_time();
    what_may_be_taken_back_is_not_overwritten();
    what_came_last_is_not_released();
    one_that_fills_it_dies();
    one_that_brings_them_dies();
    return 0;
}
