/* A process that reaches a mailbox, the messages that it sends, and what a whole mailbox looks like. */
#ifndef ACP_TESTS_MAIL_STAGE_H
#define ACP_TESTS_MAIL_STAGE_H

#include "support/crash.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "messages/deliver.h"
#include "messages/mailbox.h"
#include "messages/match.h"

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

/* A memory file with an empty heap and an empty mailbox. */
static inline int mail_memory(uint64_t limit)
{
    struct actor a;
    int fd = crash_memory(limit);
    actor_start(&a, fd);
    mailbox_create(&a.heap, 0);
    actor_end(&a);
    return fd;
}

static inline void stage_start(struct stage *s, int fd)
{
    memset(s, 0, sizeof *s);
    actor_start(&s->actor, fd);
    acp_engine *e = s->actor.engine;
    s->owner.shm.control = e->control;
    s->owner.memory.heap = &s->actor.heap;
    s->owner.relation = RELATION_NODE;
    s->owner.shm.door_fd = -1;
    e->job.own = &s->owner;
    e->doors = &doors;
    e->progress.door_fd = e->progress.epoll_fd = -1;
    e->fence.fenced = true;
    e->procs = SOURCES;
    pthread_mutex_init(&e->progress.bell, NULL);
    pthread_mutex_init(&e->mail.lock, NULL);
    e->memory.base = s->actor.heap.base;
    for (uint32_t i = 0; i < SOURCES; i++) {
        s->sources[i].watched = true;
        s->page[i] = &s->sources[i];
    }
    s->pages[0] = s->page;
    e->job.peers = s->pages;
}

static inline struct mailbox *box_of(const struct stage *s)
{
    return mailbox_of(&s->actor.heap);
}

static inline acp_envelope any_envelope(uint64_t *state, bool wild)
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

static inline uint64_t message_size(uint64_t number)
{
    return number % 3 ? 8 + number % 200 : 300 + number % 5000;
}

/* Its first word is its number. */
static inline void deliver(struct stage *s, acp_envelope e, uint64_t number)
{
    static unsigned char bytes[8192];
    struct landing l;
    memcpy(bytes, &number, 8);
    e.size = message_size(number);
    e.note = number;
    CHECK(match_arrive(s->actor.lane, &s->owner, &e, bytes, true, 1, &l) == ACP_OK);
    if (!l.open)
        return;
    CHECK(deliver_open(s->actor.lane, &l) == ACP_OK);
    CHECK(deliver_fill(s->actor.lane, &l, 0, bytes, l.size) == ACP_OK);
    deliver_complete(s->actor.lane, &l);
}

static inline void finish(struct stage *s, acp_request *r, uint64_t number)
{
    acp_envelope got;
    uint64_t word;
    CHECK(acp_request_done(r));
    memcpy(&word, acp_request_data(s->actor.lane, r), 8);
    CHECK(acp_request_end(s->actor.lane, r, &got) == ACP_OK);
    CHECK(got.note == number && word == number && got.size == message_size(number));
}

/* The lists hold what their counts say, each entry in the one that it says. */
static inline uint64_t check_lists_of(const struct heap *h)
{
    const struct mailbox *box = mailbox_of(h);
    uint64_t receives = 0, messages = 0, arrivals = 0, bytes = 0, before = 0, last = 0;
    for (uint32_t b = 0; b <= 2 * MAIL_BUCKETS; b++) {
        const struct mail_chain *chain = b == 0              ? &box->wild
                                         : b <= MAIL_BUCKETS ? &box->receives[b - 1]
                                                             : &box->messages[b - 1 - MAIL_BUCKETS];
        before = last = 0;
        for (uint64_t at = chain->first; at; at = mailbox_entry(h, at)->link.next) {
            const struct mail_entry *l = mailbox_entry(h, at);
            CHECK(l->link.previous == before && (!before || l->sequence > last));
            CHECK(l->list == (b == 0              ? AMONG_WILD
                              : b <= MAIL_BUCKETS ? AMONG_RECEIVES
                                                  : AMONG_MESSAGES));
            CHECK(b > MAIL_BUCKETS || l->state == ENTRY_POSTED);
            CHECK(b <= MAIL_BUCKETS || l->state == ENTRY_DONE || l->state == ENTRY_FILLING);
            *(b <= MAIL_BUCKETS ? &receives : &messages) += 1;
            before = at;
            last = l->sequence;
        }
        CHECK(chain->last == before);
    }
    before = last = 0;
    for (uint64_t at = box->arrivals.first; at; at = mailbox_entry(h, at)->arrival.next) {
        const struct mail_entry *l = mailbox_entry(h, at);
        CHECK(l->arrival.previous == before && (!before || l->sequence > last));
        bytes += l->cost;
        before = at;
        last = l->sequence;
        arrivals++;
    }
    CHECK(box->arrivals.last == before && arrivals == messages);
    CHECK(mailbox_kept(box) == messages && mailbox_posted(box) == receives && box->bytes == bytes);
    return messages;
}

#endif
