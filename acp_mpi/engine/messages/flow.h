/* Messages by link: one flow (struct flow) for each process that this one exchanges messages with
 * by link. They travel as frames on its link of color 0, so that they arrive in the order of their sends.
 *
 *   MAIL   a message begins: its envelope and as many bytes as fit, or, FLOW_KEPT, none
 *   PART   more of its bytes, in their order; the sender does not wait
 *   SAID   the receiver: taken, go on; or, past its bound, keep the bytes. Bytes of a message that
 *          has come whole go back with that answer
 *   WHERE  the sender: the bytes are in a block of my heap; or, after all, they do not come
 *
 * A receiver past its bound announces that once, and gets envelopes alone until it announces room. If
 * not even envelopes have room it gets nothing new until then but messages for posted receives
 * (flow_solicit.c): MAIL with FLOW_MEET, which it answers: a receive was met, or missed. */
#ifndef ACP_FLOW_H
#define ACP_FLOW_H

#include "core/layout.h"
#include "messages/mailbox.h"

struct ask;
struct peer;

#define FLOW_KEPT 1u /* flag of ACP_MAIL: the sender keeps the bytes; ACP_MAIL_WHERE follows */

/* Flag of ACP_MAIL: to meet a receive before `after` in the sequence; without one nothing has happened. Bytes come
 * with it only if they fit an entry. */
#define FLOW_MEET 2u

/* Flag of ACP_MAIL_WHERE without a block: the receive or probe that has the message gets a note in place of the bytes.
 * Without the flag the message is taken back, unless a receive has it: WORD_MISSED, or WORD_MET. */
#define FLOW_LEFT 8u
#define FLOW_ASKED 4u /* with FLOW_MEET: the solicited receive, and no earlier one */

enum flow_word { /* flags of ACP_MAIL_SAID */
    WORD_TAKEN = 1, WORD_KEEP, WORD_FULL, WORD_ROOM,
    WORD_ASK,    /* past a full mailbox: a receive of `dst`, `src` is posted, before `after` */
    WORD_MET,    /* a receive has met a tried message */
    WORD_MISSED, /* no receive has met it */
    /* a receive has a message with bytes to be kept: it needs them here, unless they are in a block already */
    WORD_WANT,
};

enum outgoing_state {
    OUTGOING_WAITING = 1, /* for room on the link, or for its peer to have room */
    OUTGOING_TRIED,       /* whether it meets a receive is not known yet (`FLOW_MEET`) */
    OUTGOING_BEGUN,       /* its bytes go out */
    OUTGOING_KEPT,        /* its bytes go to the own heap */
    OUTGOING_BACK,        /* its bytes went to the own heap; whether it can be taken back is not known yet */
};

/* A message of this process that did not go out in one piece. */
struct outgoing {
    struct outgoing *next;
    uint64_t id;
    acp_envelope envelope;
    const unsigned char *data; /* the sender's, or `own` */
    unsigned char *own;
    uint64_t done;  /* bytes that have gone out, or are in the block */
    uint64_t block; /* of the own heap; 0: none yet */
    acp_request *request; /* to be ended when the bytes are free again; NULL: none */
    uint8_t state;
    bool taken; /* the receiver takes its bytes: WORD_TAKEN, or all fit one frame */
    bool met;   /* WORD_MET has come for bytes that are to be kept */
    bool began_in_vain; /* tried for the receives that were posted when the receiver stopped this flow */
};

/* A message of the peer that has arrived, but not all of its bytes. */
struct delivery {
    struct delivery *next;
    uint64_t id, size;
    uint64_t come; /* bytes */
    struct landing landing;
    bool open; /* deliver_open was called */
    bool kept; /* its bytes stay there */
    bool wanted; /* its bytes were to stay there, until a receive came */
};

/* A deferred frame: it met a section held by another, or a full heap. */
struct late {
    struct late *next;
    struct message message;
    uint64_t size;
    unsigned char payload[];
};

struct flow {
    struct flow *next;
    struct peer *peer;
    struct outgoing *outgoing, **outgoing_end;
    struct delivery *deliveries, **deliveries_end;
    struct late *late, **late_end;
    uint32_t answers; /* ACP_MAIL_SAID among them: they have come while all was halted */
    uint64_t copied; /* bytes in the `own` copies of its messages */
    uint8_t heard; /* last of WORD_KEEP and WORD_FULL from the receiver there; 0: none, or WORD_ROOM */
    uint8_t told;  /* the same of the receiver here */
    bool stops;    /* WORD_FULL is still to be sent */
    uint64_t full_at; /* place in the sequence of the receiver there at its WORD_FULL */
    struct ask *asks, **asks_end; /* its solicitations since */
    struct ask *answering;         /* by `tried`; NULL: by none */
    const struct outgoing *tried;
};

/* With the lock held: */
struct flow *flow_of(acp_engine *e, struct peer *p); /* NULL: no memory */
/* Goes on with the flows later. ACP_E_BUSY: another holds a section. ACP_E_FULL: the own heap is full, and no event
 * tells when there is memory again. */
void flow_retry(acp_engine *e, int rc);

/* Sends an answer of this receiver, in `flags`, with its arguments. */
void flow_answer(acp_lane *lane, struct flow *c, struct message *m, const void *payload,
                 uint64_t size);

/* Opens a link if there is none: a thread waits for a message of `p`, or for its death. */
void flow_watch(acp_engine *e, struct peer *p);

#endif
