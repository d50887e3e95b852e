/* Sends and receives of this process that are not over. */
#ifndef ACP_REQUEST_H
#define ACP_REQUEST_H

#include "memory/heap.h"
#include "operations/op.h"
#include "messages/any_source.h"

enum request_kind { REQUEST_RECEIVE = 1, REQUEST_SEND };

struct acp_request {
    acp_engine *engine;
    uint8_t kind;
    _Atomic uint8_t over; /* of a send; of a receive: cancelled. `status` says how it went */
    bool any;             /* a receive from whomever, or, with `among`, from one of those */
    bool gathers;         /* one without buffer */
    bool pulled;
    bool kept;            /* a send whose bytes are in the own heap */
    bool alone;           /* a send that nobody waits for */
    int status;
    uint32_t era;          /* of the mailbox: another after a reset */
    struct letter *letter; /* of a receive: it says how it goes */
    acp_sources *among;
    struct peer *peer;     /* the source that a receive names; the destination of a send */
    unsigned char *buffer;
    uint64_t room;
    uint64_t copied;       /* bytes that are in the buffer */
    unsigned char *own;    /* of one without buffer: what the sender had kept */
    struct pull *pull;     /* rendezvous_get.c: that is brought, or (`pulled`) there */
    acp_envelope envelope; /* of a send, with what follows */
    const unsigned char *data;
    struct landing landing;
    enum { STEP_ARRIVE = 0, STEP_OPEN, STEP_FILL } step;
    uint64_t at;       /* bytes that are there */
    acp_request *next; /* in a pool, or among the sends that wait */
};

/* request.c */
acp_request *request_new(acp_lane *lane, enum request_kind kind);
void request_free(acp_lane *lane, acp_request *request);
void requests_close(acp_engine *e);
/* It is over: its waiter is woken. From any thread. */
void request_over(acp_request *request, int status);

/* recv.c */
bool request_follow(acp_request *request); /* true: some have come */
enum letter_state request_state(const acp_request *request);

/* rendezvous_get.c */
void pull_free(acp_request *request);
void pull_drop(acp_request *request); /* nothing is under way any more */
bool pull_under_way(const acp_request *request); /* then `pull_free` waits, which a leader cannot */
uint64_t pull_at(const acp_request *request); /* bytes that have come so far */

/* send.c, message_send_queue.c */
/* ACP_E_BUSY, ACP_E_FULL: not yet. `first`: the first one that waits for the same rank, NULL: it is. */
int send_advance(acp_lane *lane, acp_request *request, const acp_request *first);
int send_wait(acp_lane *lane, const acp_request *draft, acp_request **request);
bool sends_before(acp_engine *e, const struct peer *to);
/* It is over if it waits for room, or for memory; with a `note` its receiver gets nothing but that, and
 * `*request` is NULL if it ends by itself. ACP_E_BUSY: call again. ACP_E_HANDLE: it is too late for that. */
int send_withdraw(acp_lane *lane, acp_request **request, const uint64_t *note);
int send_end(acp_lane *lane, acp_request *request);
/* The sends that wait, one slice each: leader only. True: something was done. */
bool mail_step(acp_lane *lane);
void mail_reset(acp_engine *e);

/* purge.c: has who brings the bytes of a letter died? From now on this process hears of it. */
bool filler_lost(acp_engine *e, const struct letter *letter);
/* Letters of the dead, and of contexts that have ended, in the own mailbox; leader only. */
void mail_tidy(acp_lane *lane);
static inline bool mail_untidy(const acp_engine *e)
{
    return e->mail_losses || e->mail_unwanted || e->doors->late;
}

/* purge_finished.c: nothing of that context is received here from now on. `in_vain`: something may have come. */
void mail_context_ends(acp_engine *e, uint64_t context, bool in_vain);
/* Such a letter whose bytes are under way, or with their sender: false: no memory. Then, leader only, the end
 * of those. */
bool mail_unwant(struct hold *hold, struct letter *letter);
void mail_drop_unwanted(acp_lane *lane);

/* flow_send.c: a message to a rank whose mailbox load and store do not reach. */
int mail_send_far(acp_lane *lane, struct peer *to, const acp_envelope *envelope, const void *data,
                  acp_request **request);
int parcel_withdraw(acp_request *request, const uint64_t *note); /* as send_withdraw, of such a one */

/* flow_solicit.c: a receive has been posted while peers wait for room here, one of which may have its message. */
void mail_ask(acp_engine *e, const acp_envelope *want, uint64_t sequence);

/* flow.c: opens a link if there is none, for somebody waits for a message of `p` or of its death. */
void mail_watch(acp_engine *e, struct peer *p);
/* recv_wait.c: progress_wait, which after a while watches those that `requests` wait for. */
int mail_await(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
               acp_doing doing, acp_request *const *requests, uint32_t count);

#define MAIL_AGAIN_NS ((int64_t)1000000) /* before a send that could not be withdrawn yet is asked for again */
#define MAIL_FIRST_NS ((int64_t)20000000) /* of a wait; then it also listens for deaths */
/* recv_wait.c: acp_wait_any of requests, which another number of departed ranks than `departed` ends, too,
 * and another of messages that have come than `heard` (or NULL). */
int requests_wait(acp_engine *e, acp_request *const *requests, uint32_t count,
                  const uint32_t *departed, const uint64_t *heard, int64_t timeout_ns,
                  uint32_t *index);

#endif
