/* Sends and receives of this process that are not over. */
#ifndef ACP_REQUEST_H
#define ACP_REQUEST_H

#include "heap.h"
#include "op.h"

enum request_kind { REQUEST_RECEIVE = 1, REQUEST_SEND };

struct acp_request {
    acp_engine *engine;
    uint8_t kind;
    _Atomic uint8_t over; /* `status` says how it went; else the letter does */
    bool gathers;         /* a receive without buffer */
    int status;
    uint32_t era;         /* of the mailbox: another after a reset */
    struct letter *letter; /* of a receive */
    struct peer *peer;     /* a receive's source, if it names one; a send's destination */
    unsigned char *buffer;
    uint64_t room;
    uint64_t copied; /* bytes that are in the buffer */
    acp_envelope envelope; /* of the message */
    const unsigned char *data; /* of a send */
    void *own;             /* of a receive without buffer: bytes that came from elsewhere */
    struct landing landing;
    uint64_t at; /* of a send: bytes that are there */
    bool landing_begun;
    acp_request *next;     /* in a pool, or among the sends that wait */
};

/* request.c */
acp_request *request_new(acp_lane *lane, enum request_kind kind);
void request_free(acp_lane *lane, acp_request *request);
void requests_close(acp_engine *e);
/* A receive or send is over, without a letter: its waiter is woken. From any thread. */
void request_over(acp_request *request, int status);

/* send.c: that of a message to a rank whose mailbox load and store do not reach. */
int mail_send_far(acp_lane *lane, struct peer *to, const acp_envelope *envelope, const void *data,
                  acp_request **request);

#endif
