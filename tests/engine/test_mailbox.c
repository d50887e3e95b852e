/* The mailbox against a plain model: two lists, looked through from their beginning. And after
 * processes were killed at any store of a change: it is as before, or as after, everything else gets
 * through, and no memory is lost.
 *
 * CRASHES=10000: so many processes; without it few enough for every day. */
#include "crash.h"
#include "mail_match.h"
#include "request.h"

#define MOST 64u
#define SOURCES 3u
#define TAGS 3u
#define CONTEXTS 2u

/* A process that reaches the mailbox; the owner is one of them. */
struct stage {
    struct actor actor;
    struct peer owner, sources[SOURCES];
    struct peer *page[PEER_PAGE], **pages[1];
    acp_request *posted[MOST]; /* by the number of the receive */
};

static struct doors doors; /* nobody waits there */

static void stage_start(struct stage *s, int fd)
{
    memset(s, 0, sizeof *s);
    actor_start(&s->actor, fd);
    acp_engine *e = s->actor.engine;
    s->owner.control = e->control;
    s->owner.heap = &s->actor.heap;
    s->owner.relation = RELATION_NODE;
    s->owner.door_fd = -1;
    e->own = &s->owner;
    e->doors = &doors;
    e->door_fd = e->epoll_fd = -1;
    e->fenced = true;
    e->procs = SOURCES;
    pthread_mutex_init(&e->bell, NULL);
    pthread_mutex_init(&e->mail_lock, NULL);
    e->memory.base = s->actor.heap.base;
    for (uint32_t i = 0; i < SOURCES; i++) {
        s->sources[i].watched = true;
        s->page[i] = &s->sources[i];
    }
    s->pages[0] = s->page;
    e->peers = s->pages;
}

static struct mailbox *box_of(const struct stage *s)
{
    return &s->actor.heap.head->mailbox;
}

struct entry_of {
    acp_envelope envelope;
    uint64_t number;
};

/* In the order of posting, and of arrival. */
struct model {
    struct entry_of receives[MOST], messages[MOST];
    uint32_t receive_count, message_count;
};

static bool fits(const acp_envelope *want, const acp_envelope *is)
{
    return want->context == is->context &&
           (want->source == ACP_ANY || want->source == is->source) &&
           (want->tag == ACP_ANY || want->tag == is->tag);
}

static void drop(struct entry_of *list, uint32_t *count, uint32_t i)
{
    memmove(&list[i], &list[i + 1], (--*count - i) * sizeof *list);
}

static acp_envelope any_envelope(uint64_t *state, bool wild)
{
    acp_envelope e = {.context = crash_random(state) % CONTEXTS,
                      .source = (int64_t)(crash_random(state) % SOURCES),
                      .tag = (int64_t)(crash_random(state) % TAGS)};
    if (wild && crash_random(state) % 4 == 0)
        e.source = ACP_ANY;
    if (wild && crash_random(state) % 4 == 0)
        e.tag = ACP_ANY;
    return e;
}

static uint64_t message_size(uint64_t number)
{
    return number % 3 ? 8 + number % 200 : 300 + number % 5000;
}

/* Its first word is its number. */
static void deliver(struct stage *s, acp_envelope e, uint64_t number)
{
    static unsigned char bytes[8192];
    struct landing l;
    memcpy(bytes, &number, 8);
    e.size = message_size(number);
    e.note = number;
    CHECK(mail_arrive(s->actor.lane, &s->owner, &e, bytes, true, 1, &l) == ACP_OK);
    if (!l.open)
        return;
    CHECK(mail_open(s->actor.lane, &l) == ACP_OK);
    CHECK(mail_fill(s->actor.lane, &l, 0, bytes, l.size) == ACP_OK);
    mail_landed(s->actor.lane, &l);
}

static void finish(struct stage *s, acp_request *r, uint64_t number)
{
    acp_envelope got;
    uint64_t word;
    CHECK(acp_request_done(r));
    memcpy(&word, acp_request_data(s->actor.lane, r), 8);
    CHECK(acp_request_end(s->actor.lane, r, &got) == ACP_OK);
    CHECK(got.note == number && word == number && got.size == message_size(number));
}

static void send_one(struct stage *s, struct model *m, uint64_t *state, uint64_t number)
{
    acp_envelope e = any_envelope(state, false);
    uint32_t i = 0;
    deliver(s, e, number);
    while (i < m->receive_count && !fits(&m->receives[i].envelope, &e))
        i++;
    if (i == m->receive_count) {
        m->messages[m->message_count++] = (struct entry_of){e, number};
        return;
    }
    uint64_t receive = m->receives[i].number;
    finish(s, s->posted[receive], number);
    s->posted[receive] = NULL;
    drop(m->receives, &m->receive_count, i);
}

static uint32_t find(const struct model *m, const acp_envelope *want)
{
    uint32_t i = 0;
    while (i < m->message_count && !fits(want, &m->messages[i].envelope))
        i++;
    return i;
}

static void receive_one(struct stage *s, struct model *m, uint64_t *state)
{
    acp_envelope want = any_envelope(state, true);
    acp_request *r;
    uint32_t i = find(m, &want), number = 0;
    want.size = UINT64_MAX;
    CHECK(acp_receive(s->actor.lane, &want, NULL, &r) == ACP_OK);
    CHECK(acp_request_done(r) == (i < m->message_count));
    if (i < m->message_count) {
        finish(s, r, m->messages[i].number);
        drop(m->messages, &m->message_count, i);
        return;
    }
    while (s->posted[number])
        number++;
    s->posted[number] = r;
    m->receives[m->receive_count++] = (struct entry_of){want, number};
}

static void cancel_one(struct stage *s, struct model *m, uint64_t *state)
{
    if (!m->receive_count)
        return;
    uint32_t i = (uint32_t)(crash_random(state) % m->receive_count);
    uint64_t number = m->receives[i].number;
    CHECK(acp_request_cancel(s->actor.lane, s->posted[number]) == ACP_OK);
    CHECK(acp_request_end(s->actor.lane, s->posted[number], NULL) == ACP_E_CANCELLED);
    s->posted[number] = NULL;
    drop(m->receives, &m->receive_count, i);
}

static void probe_one(struct stage *s, struct model *m, uint64_t *state)
{
    acp_envelope want = any_envelope(state, true), found;
    bool takes = crash_random(state) % 2;
    uint32_t i = find(m, &want);
    uint64_t taken;
    acp_request *r;
    int rc = acp_probe(s->actor.lane, &want, &found, takes ? &taken : NULL);
    CHECK(rc == (i < m->message_count ? ACP_OK : ACP_E_HANDLE));
    if (rc != ACP_OK)
        return;
    CHECK(found.note == m->messages[i].number && found.source == m->messages[i].envelope.source);
    if (!takes)
        return;
    CHECK(acp_receive_taken(s->actor.lane, taken, NULL, UINT64_MAX, &r) == ACP_OK);
    finish(s, r, m->messages[i].number);
    drop(m->messages, &m->message_count, i);
}

/* The lists hold what their counts say, each letter in the one that it says. */
static uint64_t check_lists_of(const struct heap *h)
{
    const struct mailbox *box = &h->head->mailbox;
    uint64_t receives = 0, messages = 0, arrivals = 0, bytes = 0, before = 0, last = 0;
    for (uint32_t b = 0; b <= 2 * MAIL_BUCKETS; b++) {
        const struct mail_chain *chain = b == 0              ? &box->wild
                                         : b <= MAIL_BUCKETS ? &box->receives[b - 1]
                                                             : &box->messages[b - 1 - MAIL_BUCKETS];
        before = last = 0;
        for (uint64_t at = chain->first; at; at = letter_at(h, at)->link.next) {
            const struct letter *l = letter_at(h, at);
            CHECK(l->link.previous == before && (!before || l->sequence > last));
            CHECK(l->list == (b == 0              ? AMONG_WILD
                              : b <= MAIL_BUCKETS ? AMONG_RECEIVES
                                                  : AMONG_MESSAGES));
            CHECK(b > MAIL_BUCKETS || l->state == LETTER_POSTED);
            CHECK(b <= MAIL_BUCKETS || l->state == LETTER_DONE || l->state == LETTER_FILLING);
            *(b <= MAIL_BUCKETS ? &receives : &messages) += 1;
            before = at;
            last = l->sequence;
        }
        CHECK(chain->last == before);
    }
    before = last = 0;
    for (uint64_t at = box->arrivals.first; at; at = letter_at(h, at)->arrival.next) {
        const struct letter *l = letter_at(h, at);
        CHECK(l->arrival.previous == before && (!before || l->sequence > last));
        bytes += l->cost;
        before = at;
        last = l->sequence;
        arrivals++;
    }
    CHECK(box->arrivals.last == before && arrivals == messages);
    CHECK(box->kept == messages && box->posted == receives && box->bytes == bytes);
    return messages;
}

static void against_the_model(void)
{
    struct stage s;
    struct model m = {0};
    uint64_t state = 88172645463325252ull;
    int fd = crash_memory(CRASH_SPAN);
    stage_start(&s, fd);
    for (uint64_t number = 1; number < 60000; number++) {
        uint64_t what = crash_random(&state) % 10;
        if (what < 4 && m.message_count < MOST - 1)
            send_one(&s, &m, &state, number);
        else if (what < 7 && m.receive_count < MOST - 1)
            receive_one(&s, &m, &state);
        else if (what < 8)
            cancel_one(&s, &m, &state);
        else
            probe_one(&s, &m, &state);
        if (number % 64 == 0) {
            CHECK(check_lists_of(&s.actor.heap) == m.message_count);
            CHECK(box_of(&s)->posted == m.receive_count);
        }
    }
    while (m.receive_count)
        cancel_one(&s, &m, &state);
    requests_close(s.actor.engine);
    actor_end(&s.actor);
    close(fd);
}

/* A heap without room: nothing has happened then. */
static void a_full_heap(void)
{
    struct stage s;
    struct landing l;
    acp_envelope e = {.size = 8}, want = {.source = ACP_ANY, .tag = ACP_ANY, .size = 8};
    acp_request *r;
    uint64_t word = 0, got, count = 0;
    int rc, fd = crash_memory(600 << 10);
    stage_start(&s, fd);
    box_of(&s)->bound = UINT64_MAX / 4;
    while ((rc = mail_arrive(s.actor.lane, &s.owner, &e, &word, false, 1, &l)) == ACP_OK)
        word = ++count;
    CHECK(rc == ACP_E_FULL && count > 100 && check_lists_of(&s.actor.heap) == count);
    for (uint64_t i = 0; i < count; i++) {
        CHECK(acp_receive(s.actor.lane, &want, &got, &r) == ACP_OK);
        CHECK(acp_request_end(s.actor.lane, r, NULL) == ACP_OK && got == i);
    }
    CHECK(check_lists_of(&s.actor.heap) == 0);
    requests_close(s.actor.engine);
    actor_end(&s.actor);
    close(fd);
}

/* What a sender that is killed leaves is a whole mailbox. The owner then receives whatever is there:
 * of a message that was under way it hears that it is lost. */
static uint64_t dies_at(int fd, uint64_t fault, uint64_t seed)
{
    pid_t child = child_start();
    if (child)
        return was_killed(child);
    struct stage s;
    uint64_t state = seed | 1;
    stage_start(&s, fd);
    fault_left = fault;
    for (uint64_t number = 1; number <= 12; number++)
        deliver(&s, any_envelope(&state, false), number);
    _exit(0);
}

static void receive_all(struct stage *s, uint32_t *lost)
{
    acp_request *r;
    acp_envelope got;
    for (uint64_t context = 0; context < CONTEXTS; context++) {
        acp_envelope want = {.context = context, .source = ACP_ANY, .tag = ACP_ANY,
                             .size = UINT64_MAX};
        while (acp_probe(s->actor.lane, &want, &got, NULL) == ACP_OK) {
            CHECK(acp_receive(s->actor.lane, &want, NULL, &r) == ACP_OK);
            if (letter_state(r->letter) == LETTER_FILLING) { /* nobody brings its bytes any more */
                ++*lost;
                letter_done(s->actor.lane, &s->owner, r->letter, LETTER_LOST);
                CHECK(acp_request_end(s->actor.lane, r, &got) == ACP_E_LOST);
                continue;
            }
            CHECK(got.size == message_size(got.note));
            finish(s, r, got.note);
        }
    }
}

static void senders_die(void)
{
    struct stage s;
    uint64_t deaths = 0, wanted = crashes_wanted(600), fault = 0;
    uint32_t lost = 0;
    int fd = crash_memory(CRASH_SPAN);
    stage_start(&s, fd);
    for (uint64_t i = 0; i < wanted; i++) {
        acp_request *r[6];
        uint64_t state = i * 2 + 1;
        for (uint32_t n = 0; n < 6; n++) {
            acp_envelope want = any_envelope(&state, true);
            want.size = UINT64_MAX;
            CHECK(acp_receive(s.actor.lane, &want, NULL, &r[n]) == ACP_OK);
        }
        bool died = dies_at(fd, ++fault, i * 77 + 5);
        deaths += died;
        if (!died)
            fault = 0;
        mend(&s.actor, &box_of(&s)->section);
        check_section(&box_of(&s)->section);
        check_lists_of(&s.actor.heap);
        deliver(&s, (acp_envelope){.tag = 1}, 5); /* others get through */
        for (uint32_t n = 0; n < 6; n++) {
            if (letter_state(r[n]->letter) == LETTER_FILLING) {
                lost++;
                letter_done(s.actor.lane, &s.owner, r[n]->letter, LETTER_LOST);
            }
            CHECK(letter_state(r[n]->letter) != LETTER_POSTED || !acp_request_done(r[n]));
            int rc = acp_request_end(s.actor.lane, r[n], NULL);
            CHECK(rc == ACP_OK || rc == ACP_E_LOST || rc == ACP_E_CANCELLED);
        }
        receive_all(&s, &lost);
        CHECK(check_lists_of(&s.actor.heap) == 0 && box_of(&s)->posted == 0);
        uint64_t left = check_heap(&s.actor);
        CHECK(left <= 4); /* slabs */
    }
    CHECK(deaths > wanted / 2 && lost > 0);
    printf("mailbox: %lu senders killed, %u messages lost with them\n", (unsigned long)deaths, lost);
    requests_close(s.actor.engine);
    actor_end(&s.actor);
    close(fd);
}

/* Its receiver hears of the death before anybody has entered the mailbox again, and ends the receive: whether
 * the message had met it is known only when what was left half-way is whole. */
static void a_receive_ends_before_the_mailbox_is_whole(void)
{
    struct stage s;
    uint64_t lost = 0, fault = 0;
    bool died = true;
    int fd = crash_memory(CRASH_SPAN);
    stage_start(&s, fd);
    while (died) {
        acp_request *r, *next;
        acp_envelope want = {.source = ACP_ANY, .tag = ACP_ANY, .size = UINT64_MAX};
        CHECK(acp_receive(s.actor.lane, &want, NULL, &r) == ACP_OK);
        pid_t child = child_start();
        if (!child) {
            struct stage there;
            stage_start(&there, fd);
            fault_left = fault + 1;
            deliver(&there, (acp_envelope){.source = 1}, 3);
            _exit(0);
        }
        died = was_killed(child);
        fault += died;
        s.sources[1].lost = 1;
        bool done = acp_request_done(r);
        int rc = acp_request_end(s.actor.lane, r, NULL);
        CHECK(done ? rc == ACP_OK || rc == ACP_E_LOST : rc == ACP_E_CANCELLED);
        lost += rc == ACP_E_LOST;
        s.sources[1].lost = 0;
        CHECK(acp_receive(s.actor.lane, &want, NULL, &next) == ACP_OK);
        check_section(&box_of(&s)->section);
        check_lists_of(&s.actor.heap);
        CHECK(box_of(&s)->posted == 1);
        deliver(&s, (acp_envelope){.source = 2}, 4);
        finish(&s, next, 4);
    }
    CHECK(fault > 8 && lost > 2);
    requests_close(s.actor.engine);
    actor_end(&s.actor);
    close(fd);
}

int main(void)
{
    against_the_model();
    a_full_heap();
    a_receive_ends_before_the_mailbox_is_whole();
    senders_die();
    return 0;
}
