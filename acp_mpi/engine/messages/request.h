/* Sends and receives of this process that are not over. */
#ifndef ACP_REQUEST_H
#define ACP_REQUEST_H

#include "messages/mailbox.h"

struct peer;
struct pull;

enum request_kind { REQUEST_RECEIVE = 1, REQUEST_SEND };

struct acp_request {
    acp_engine *engine;
    uint8_t kind;
    _Atomic uint8_t over; /* of a send; of a receive: cancelled. `status` is the result */
    bool any;             /* a receive from any source, or, with `among`, from one of those */
    bool gathers;         /* a receive without a buffer */
    bool pulled;
    bool kept;            /* a send with its bytes in the own heap */
    bool alone;           /* a send that no caller waits for */
    int status;
    uint32_t era;          /* era of the mailbox; another: a reset has ended it */
    uint32_t damages;      /* of a posted receive: those of the mailbox then; others: it is not in a list any more */
    struct mail_entry *entry; /* of a receive: its entry */
    acp_sources *among;
    struct peer *peer;     /* of a receive: the named source; of a send: the destination */
    unsigned char *buffer;
    uint64_t room;
    uint64_t copied;       /* bytes in the buffer */
    unsigned char *own;    /* of a receive without a buffer: the bytes from the sender's heap */
    struct pull *pull;     /* rendezvous under way, or (`pulled`) done; NULL: none */
    acp_envelope envelope; /* of a send, with the fields below */
    const unsigned char *data;
    struct landing landing;
    enum { STEP_ARRIVE = 0, STEP_OPEN, STEP_FILL } step;
    uint64_t at;       /* bytes that have gone to their place */
    acp_request *next; /* in a lane's pool, or in the send queue */
};

acp_request *request_new(acp_lane *lane, enum request_kind kind);
void request_free(acp_lane *lane, acp_request *request);
void requests_close(acp_engine *e);
/* The request is over: wakes its waiter. From any thread. */
void request_over(acp_request *request, int status);

#endif
