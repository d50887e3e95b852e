/* Messages of this process. */
#ifndef ACP_STATE_MESSAGES_H
#define ACP_STATE_MESSAGES_H

#include "core/messages.h"

#include <pthread.h>
#include <stdatomic.h>

struct flow;
struct pair_ring;
struct ring_line;

/* A mailbox has counts and rings for messages of users, and others for those of collectives, so that neither class holds
 * up the other. */
enum mail_class { MAIL_USERS, MAIL_COLLECTIVES, MAIL_CLASSES };

/* A sender's view of its ring. */
struct ring_sender {
    _Atomic uint32_t era; /* era of the mailbox + 1 in which the rest is valid */
    _Atomic bool busy;    /* a thread sends a message of a collective; users' are sent with the interpreter lock */
    uint32_t pause;       /* sends until memory for a ring is requested again; 0: now */
    struct pair_ring *ring; /* NULL: another sender has it, or there is no memory */
    struct ring_line *lines;
    _Atomic uint64_t sent;
    _Atomic uint64_t filled; /* lines before this position have been written: a message there that is gone is lost */
    uint64_t seen; /* lines before this position were free at the last look */
};

struct mail_state {
    _Atomic uint32_t ring_turn; /* the ring at which a receive from any source begins to look */
    struct flow *flows;
    uint64_t outgoing_serial;
    _Atomic uint32_t stopped; /* peers asked to send only solicited messages */
    _Atomic uint32_t late; /* frames that wait in the flows for a section, or for memory */
    _Atomic bool due; /* a flow may go on, and no event will trigger it */
    pthread_mutex_t lock; /* the send queue */
    acp_request *waiting, **waiting_end; /* sends waiting for credit or memory, the oldest first */
    _Atomic uint32_t sends; /* requests in the queue */
    _Atomic uint32_t stuck; /* requests in the queue that no event will trigger */
    _Atomic uint32_t losses; /* messages of dead peers or finished contexts may be here */
    _Atomic uint32_t contexts_ended; /* contexts that have ended since the last purge of such messages */
    acp_request *unwanted; /* receives of finished contexts with bytes under way: leader only */
    _Atomic uint32_t era; /* number of resets */
    _Atomic uint32_t damages; /* times that a message or a receive may have been lost here by a wild pointer */
    _Atomic uint32_t probe_damages; /* times that a message may have been for which a probe waits */
    _Atomic uint32_t probes; /* threads that wait in one */
    _Atomic bool halted; /* a reset is near: nothing goes to another rank's mailbox, frames that come are deferred */
    pthread_t halter; /* the thread that resets; halted only */
    _Atomic uint32_t yields; /* yields worth while before a receive sleeps when crowded; 0: none has been tried */
    _Atomic uint32_t send_looks; /* polls worth while before a long message is left in the sender's heap */
    _Atomic uint32_t sends_kept; /* messages for which that was decided */
    _Atomic uint32_t sends_open; /* requests of sends, which may hold addresses of peers' memory */
};

/* Of a peer. */
struct peer_mail {
    struct ring_sender rings[MAIL_CLASSES]; /* of this process, in the peer's mailbox */
    _Atomic bool holds; /* blocks of the own heap are lent to it */
    _Atomic bool far; /* its heap could not be mapped: messages to it go by link */
    struct flow *flow; /* its flow; NULL: no message by link so far */
};

#endif
