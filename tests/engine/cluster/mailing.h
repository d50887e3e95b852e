/* What tests of messages say often. */
#ifndef ACP_TESTS_MAILING_H
#define ACP_TESTS_MAILING_H

#include "cluster/cluster.h"
#include "core/engine_state.h"
#include "membership/team.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"

#include <sched.h>
#include <stdlib.h>

#define LARGE ((uint64_t)4 << 20)

/* Lane 0 comes again while somebody holds a mailbox. */
#define AGAIN(call)                             \
    ({                                          \
        int again_;                             \
        while ((again_ = (call)) == ACP_E_BUSY) \
            sched_yield();                      \
        again_;                                 \
    })
#define UNTIL(condition)   \
    while (!(condition))   \
        sched_yield()

static inline acp_request *isend(acp_lane *lane, uint32_t to, int64_t tag, const void *data,
                                 uint64_t size)
{
    acp_envelope envelope = {.tag = tag, .size = size, .note = (uint64_t)tag * 7 + size};
    acp_request *r;
    CHECK(AGAIN(acp_send(lane, to, &envelope, data, &r)) == ACP_OK);
    return r;
}

static inline void send_end_of(acp_lane *lane, acp_request *r)
{
    if (!r)
        return;
    CHECK(acp_request_wait(lane->engine, r, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(lane, r, NULL) == ACP_OK);
}

static inline void post_message(acp_lane *lane, uint32_t to, int64_t tag, const void *data,
                                uint64_t size)
{
    send_end_of(lane, isend(lane, to, tag, data, size));
}

static inline acp_request *ireceive(acp_lane *lane, int64_t from, int64_t tag, void *buffer,
                                    uint64_t size)
{
    acp_envelope want = {.source = from, .tag = tag, .size = size};
    acp_request *r;
    CHECK(AGAIN(acp_receive(lane, &want, buffer, &r)) == ACP_OK);
    return r;
}

static inline acp_envelope receive_end_of(acp_lane *lane, acp_request *r)
{
    acp_envelope got = {0};
    CHECK(acp_request_wait(lane->engine, r, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(lane, r, &got) == ACP_OK);
    CHECK(got.note == (uint64_t)got.tag * 7 + got.size);
    return got;
}

static inline acp_envelope take_message(acp_lane *lane, int64_t from, int64_t tag, void *buffer,
                                        uint64_t size)
{
    return receive_end_of(lane, ireceive(lane, from, tag, buffer, size));
}

/* All ranks meet, and nobody in finalize: who waits there for long tells the others that it ends. */
static inline void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, PURPOSE_FINALIZE - 1, ACP_FOREVER) == ACP_OK);
}

static inline void paint(unsigned char *p, uint64_t size, uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        p[i] = (unsigned char)(seed * 31 + i * 7 + i / 251);
}

static inline bool painted(const unsigned char *p, uint64_t size, uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        if (p[i] != (unsigned char)(seed * 31 + i * 7 + i / 251))
            return false;
    return true;
}

struct pages {
    unsigned char *mine, *theirs;
};

static inline struct pages pages_take(void)
{
    return (struct pages){malloc(LARGE), malloc(LARGE)};
}

static inline void pages_give(struct pages p)
{
    free(p.mine);
    free(p.theirs);
}

static inline struct mailbox *box_of(acp_engine *e)
{
    return mailbox_of(mailbox_heap(e, e->job.own));
}

/* How many bytes nobody may have waited for. */
static inline void set_bound(acp_engine *e, acp_lane *lane, uint64_t bytes)
{
    struct heap *h = mailbox_heap(e, e->job.own);
    struct hold hold;
    CHECK(transaction_enter(&hold, lane, &mailbox_of(h)->section, h, ACP_FOREVER) == ACP_OK);
    pthread_mutex_lock(&e->lock); /* for whoever only looks */
    mailbox_of(h)->bound = bytes;
    pthread_mutex_unlock(&e->lock);
    transaction_leave(&hold);
}

#endif
