/* Messages by link: one courier for each process that this one exchanges messages with by link.
 * They travel as frames on its link of color 0, so that they arrive in the order of their sends.
 *
 *   MAIL   a message begins: its envelope and as many bytes as fit, or, COURIER_KEPT, none
 *   PART   more of its bytes, in their order; the sender waits for nobody
 *   SAID   the receiver: taken, go on; or, past its bound, keep the bytes. Those that have come
 *          whole go back with that word
 *   WHERE  the sender: they are in a block of my heap; or, after all, they do not come
 *
 * A receiver past its bound says so once, and is sent envelopes alone until it says that there is
 * room. If not even they have any, nothing new is sent to it until then but what a receive is posted
 * for (flow_solicit.c): MAIL with COURIER_MEET, to which it says whether it has met one. */
#ifndef ACP_FLOW_H
#define ACP_FLOW_H

#include "core/layout.h"
#include "messages/mailbox.h"

struct ask;
struct peer;

#define COURIER_COLOR 0u
#define COURIER_KEPT 1u /* flag of ACP_MAIL: the sender keeps the bytes; ACP_MAIL_WHERE follows */

/* The same: to meet a receive before `after` in the sequence, or nothing has happened. Bytes are with
 * it only if the letter holds them. */
#define COURIER_MEET 2u

/* Of ACP_MAIL_WHERE without a block: what has the message gets a note in place of the bytes. Else it is taken
 * back, unless a receive has it: WORD_MISSED, or WORD_MET. */
#define COURIER_LEFT 8u
#define COURIER_ASKED 4u /* with that: the one that this has been asked for, and no earlier one */

enum courier_word { /* flags of ACP_MAIL_SAID */
    WORD_TAKEN = 1, WORD_KEEP, WORD_FULL, WORD_ROOM,
    WORD_ASK,    /* past a full mailbox: a receive of `dst`, `src` is posted, before `after` */
    WORD_MET,    /* one that was to meet a receive has */
    WORD_MISSED, /* and one has not */
    WORD_WANT,   /* a receive has one whose bytes were to be kept: it needs them here, if they still lie nowhere */
};

enum parcel_state {
    PARCEL_WAITING = 1, /* for room on the link, or for its peer to have room */
    PARCEL_TRIED,       /* whether it meets a receive is not known yet */
    PARCEL_BEGUN,       /* its bytes go out */
    PARCEL_KEPT,        /* its bytes go to the own heap */
    PARCEL_BACK,        /* they did, and whether it can be taken back is not known yet */
};

/* A message of this process that did not go out in one piece. */
struct parcel {
    struct parcel *next;
    uint64_t id;
    acp_envelope envelope;
    const unsigned char *data; /* of whoever sends it, or `own` */
    unsigned char *own;
    uint64_t done;  /* bytes that have gone out, or are in the block */
    uint64_t block; /* of the own heap; 0: none yet */
    acp_request *request; /* who waits until the bytes are free again; NULL: nobody */
    uint8_t state;
    bool taken; /* the receiver has said so */
    bool met;   /* and that a receive has it, whose bytes are to be kept */
    bool began_in_vain; /* tried for the receives that were there when its peer stopped it */
};

/* A message of the peer that has arrived, but not all of its bytes. */
struct delivery {
    struct delivery *next;
    uint64_t id, size;
    uint64_t come; /* bytes */
    struct landing landing;
    bool open; /* mail_open was called */
    bool kept; /* its bytes stay there */
    bool wanted; /* or they were to, until a receive came */
};

/* A frame that met a section held by another, or a full heap. */
struct late {
    struct late *next;
    struct message message;
    uint64_t size;
    unsigned char payload[];
};

struct courier {
    struct courier *next;
    struct peer *peer;
    struct parcel *parcels, **parcels_end;
    struct delivery *deliveries, **deliveries_end;
    struct late *late, **late_end;
    uint64_t copied; /* bytes of parcels that are `own` */
    uint8_t heard; /* WORD_KEEP, WORD_FULL: the receiver there has said so */
    uint8_t told;  /* the receiver here has */
    bool stops;    /* WORD_FULL is still to be said */
    uint64_t full_at; /* place in the sequence of the receiver there, when it said WORD_FULL */
    struct ask *asks, **asks_end; /* what it has asked for since */
    struct ask *answering;         /* by `tried`; NULL: by none */
    const struct parcel *tried;
};

/* With the lock held. flow.c: */
struct courier *courier_of(acp_engine *e, struct peer *p); /* NULL: no memory */
/* ACP_E_BUSY: a section is held. ACP_E_FULL: the own heap is, and nobody tells when not any more. */
void courier_later(acp_engine *e, int rc);

/* A word, in `flags`, with what belongs to it. */
void courier_says(acp_lane *lane, struct courier *c, struct message *m, const void *payload,
                  uint64_t size);

/* Opens a link if there is none, for somebody waits for a message of `p` or of its death. */
void mail_watch(acp_engine *e, struct peer *p);

/* Messages by link */
bool couriers_push(acp_lane *lane); /* what can go on does; true if anything did */
void couriers_lost(acp_lane *lane, struct peer *p);
void couriers_reset(acp_engine *e);
void couriers_close(acp_engine *e);

#endif
