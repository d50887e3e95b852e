/* Links, their connections, and the ring that others fill. */
#ifndef ACP_STATE_TRANSPORT_H
#define ACP_STATE_TRANSPORT_H

#include "base/address.h"

#include <stdatomic.h>
#include <stdbool.h>

struct backlog;
struct link;
struct outbox_block;
struct peer;
struct wire;

#define LISTENERS 6u /* loopback and the addresses that a row has room for */
#define COMPANY_NS 40000u /* frames wait so long for company that more do not come with */

/* Large blocks that are not in use, for all outboxes of a process. */
struct outbox_spares {
    struct outbox_block *first;
    unsigned count;
};

struct shm_state {
    struct backlog *backlog_spares; /* for answers that find a ring full, and no memory */
    uint32_t backlog_spare_count;
    bool submits;               /* whoever has the lock: it rings when it has given that back, */
    const struct peer *to_ring; /* this one's */
    uint64_t inbox_head;
    _Atomic uint32_t backlogged;
};

struct tcp_state {
    int listeners[LISTENERS];
    struct link *links, *dead_links;
    struct outbox_spares outbox_spares;
    uint64_t sessions; /* links that this process has opened */
    _Atomic uint32_t held_links; /* with frames that wait for company */
    _Atomic uint64_t held_at;    /* when the first of them began to */
    _Atomic bool asked_later;    /* answers may come later than their caller, if it waits, can do with */
    struct wire **wires; /* by number */
    uint32_t wire_room;
    _Atomic uint32_t wire_count;
    struct wire *dead_wires;
    uint64_t listen_again; /* when descriptors had run out */
    uint64_t put_off_at; /* when a peer was last told that there is none */
    bool spare_used;       /* the last one is: a peer that calls is told that there is no other */
    _Atomic uint64_t short_since; /* since then links wait for want of a descriptor or of memory; 0: none does */
    _Atomic int short_error;
    uint32_t pending_handshakes; /* of wires that others open */
    unsigned char *receive_buffer;
    struct wire *last_input;     /* from there */
    struct wire *_Atomic talker; /* it has brought the last two */
};

/* Of a peer. */
struct peer_tcp {
    struct link *links[ACP_COLORS];
};

#endif
