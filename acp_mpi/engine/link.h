/* A link: an authenticated byte stream between two processes, one frame after another.
 * link.c opens and closes it, frame.c sends and receives on it. With the lock held. */
#ifndef ACP_LINK_H
#define ACP_LINK_H

#include "op.h"
#include "handshake.h"

enum link_state { LINK_CONNECTING = 1, LINK_HANDSHAKE, LINK_OPEN, LINK_CLOSED };

struct link {
    uint32_t number;
    int fd;
    uint8_t state;
    bool accepted;
    bool writing; /* waits for the socket to take more */
    bool corked;  /* frames go out together when what has come is dealt with */
    bool held;    /* frames wait for company: an answer is due that will send them */
    uint32_t unanswered; /* commands of this process on it */
    uint32_t color;
    uint32_t attempt; /* how many addresses of the peer have been called */
    struct peer *peer; /* NULL: an accepted one, before its handshake */
    acp_handshake *handshake;
    uint64_t deadline; /* of the handshake */
    unsigned char *out;
    size_t out_sent, out_size, out_room;
    unsigned char *in; /* the begin of a frame whose rest has not come */
    size_t in_size;
    struct link *next_dead;
};

struct frame_head {
    uint32_t length; /* of the payload */
    uint32_t crc;    /* of message and payload */
    struct message message;
};
static_assert(sizeof(struct frame_head) == 64, "one cache line before the payload");

#define OUT_MOST ((size_t)256 << 10) /* above: no more parts of long transfers */
#define IN_BUFFER ((size_t)160 << 10)
#define COMPANY_BYTES ((size_t)16 << 10) /* enough to go at once */
#define KEEP_BYTES ((size_t)4096) /* a buffer that is empty and larger goes */

struct link *link_to(acp_lane *lane, struct peer *p, uint32_t color);
void link_broken(acp_lane *lane, struct link *link);
void link_want(acp_engine *e, struct link *link, bool writing);
void frames_send(acp_lane *lane, struct link *link);
void frames_receive(acp_lane *lane, struct link *link);
void frames_parse(acp_lane *lane, struct link *link, size_t size); /* of the receive buffer */

#endif
