/* Messages of this process. */
#ifndef ACP_STATE_MESSAGES_H
#define ACP_STATE_MESSAGES_H

#include "core/messages.h"

#include <pthread.h>
#include <stdatomic.h>

struct courier;
struct pair_ring;
struct ring_line;

#define MAIL_KEPT 3u
#define EAGER_EACH 4u   /* slots of a sender, chosen by the context: it may be ahead of its receiver */
#define EAGER_SLOTS 128u /* senders share them */

/* A sender's view of its ring. */
struct ring_sender {
    _Atomic uint32_t era; /* of the mailbox, + 1: the rest is of that one */
    uint32_t pause;       /* sends until it asks again for memory that there was not; 0: it asks */
    struct pair_ring *ring; /* NULL: another has it, or there is no memory */
    struct ring_line *lines;
    _Atomic uint64_t sent;
    uint64_t seen; /* the lines before this position were free when this process looked last */
};

struct mail_state {
    _Atomic uint64_t polled_at; /* when a poll in vain last made sure that it hears of losses */
    _Atomic uint16_t eager_seen[EAGER_SLOTS]; /* messages turned away there that this process has found */
    _Atomic uint32_t ring_turn; /* the ring at which a receive from any source begins to look */
    void *kept[MAIL_KEPT];     /* for what a message by link needs */
    struct courier *couriers;
    uint64_t parcel_serial;
    _Atomic uint32_t stopped; /* peers that are to send nothing but what is asked for */
    _Atomic bool due; /* couriers would go on, and nobody rings for them */
    pthread_mutex_t lock; /* the sends that wait */
    acp_request *waiting, **waiting_end; /* for room, or for memory: the longest first */
    _Atomic uint32_t sends; /* of them */
    _Atomic uint32_t stuck; /* of them, those that nobody will ring for */
    _Atomic uint32_t losses; /* there may be letters of the dead, or of contexts that have ended */
    _Atomic uint32_t contexts_ended; /* since somebody has looked for such letters */
    acp_request *unwanted; /* receives of the latter whose bytes are under way: leader only */
    _Atomic uint32_t era; /* one more with each reset */
    _Atomic uint32_t send_looks; /* so many are worth while before a long message is kept */
    _Atomic uint32_t sends_kept; /* how often that was asked */
    _Atomic uint32_t sends_open; /* requests of sends, which may know the memory of another */
};

/* Of a peer. */
struct peer_mail {
    _Atomic uint32_t eager_stuck[EAGER_EACH]; /* so often had a slot there been claimed when it stayed full */
    struct ring_sender ring; /* this process, at its mailbox */
    _Atomic bool holds; /* blocks of the own heap are its, until it has pulled what is in them */
    _Atomic bool far; /* its heap could not be mapped: messages to it go by link */
    struct courier *courier; /* NULL: no message yet by link */
};

#endif
