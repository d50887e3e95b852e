/* Links, their connections, and the ring that others fill. */
#ifndef ACP_STATE_TRANSPORT_H
#define ACP_STATE_TRANSPORT_H

#include "base/address.h"
#include "base/libcrypto.h"

#include <stdatomic.h>
#include <stdbool.h>

struct backlog;
struct link;
struct outbox_block;
struct peer;
struct wire;

/* Of each color two links: long transfers have their own, so that a small operation does not wait behind the bytes that
 * are queued for one, here, in the network and at the receiver. */
#define LINK_LONG ACP_COLORS /* added to the color of a link */
#define LINK_COLORS (2 * ACP_COLORS)
#define LISTENERS 6u /* loopback and the addresses that a row has room for */
#define COMPANY_NS 40000u /* longest delay, ns, of a small frame, so that later ones can share its system call */
#define STREAM_NS 1000000u /* the same of a message that no answer follows, if neither its receiver waits nor this process */

/* Large blocks that are not in use, for all send queues of a process. */
struct outbox_spares {
    struct outbox_block *first;
    unsigned count;
};

struct shm_state {
    struct backlog *backlog_spares; /* entries for answers that find a ring full, and no memory */
    uint32_t backlog_spare_count;
    bool submits;               /* the lock's holder rings a door after it has released the lock */
    const struct peer *to_ring; /* the door's owner */
    _Atomic uint64_t inbox_head; /* changed with the engine's lock */
    _Atomic uint32_t backlogged;
};

struct tcp_state {
    int listeners[LISTENERS];
    struct link *links, *dead_links;
    struct outbox_spares outbox_spares;
    uint64_t sessions; /* links that this process has opened */
    struct link_cache {
        uint32_t open_most; /* connections of links above which idle ones rest */
        uint32_t resting;   /* links that rest */
        uint64_t rested;    /* times that this process has let one rest */
        bool lacking;       /* a link has found no descriptor */
        uint64_t checked_at; /* time at which a link was last resumed to see whether its peer lives, ns */
        uint64_t spare_at, pause; /* time of the next look for an idle one, if there was none; and until then, ns */
    } cache;
    _Atomic uint32_t held_links; /* links with frames that are held back */
    _Atomic uint64_t held_at;    /* time of the first of these frames, ns */
    uint32_t inputs;             /* times that a connection has brought something */
    _Atomic bool asked_later;    /* an answer may be later than a waiting caller can do with */
    _Atomic bool more_follows;   /* a peer may hold back messages */
    struct wire **wires; /* connections, by number */
    uint32_t wire_room;
    _Atomic uint32_t wire_count;
    struct wire *dead_wires;
    uint64_t listen_again; /* time to accept again after want of descriptors, ns; 0: it accepts */
    uint64_t put_off_at; /* time of the last refusal of a peer for want of a descriptor, ns */
    bool spare_used;       /* the spare descriptor is in use: a connecting peer is refused */
    _Atomic uint64_t short_since; /* links wait since then for want of a descriptor or of memory, ns; 0: none does */
    _Atomic int short_error;
    _Atomic bool starved; /* input waits for memory */
    uint32_t pending_handshakes; /* handshakes of connections that peers open */
    unsigned char *receive_buffer;
    struct libcrypto crypto;
    struct wire *last_input;     /* the connection of the last input */
    _Atomic bool long_input;     /* the last of them was a part of a long transfer */
    _Atomic uint32_t brief_turns; /* of long transfers to come, since another connection has brought something */
    struct wire *_Atomic talker; /* the connection that brought the last two inputs */
};

/* Of a peer of the node. */
struct peer_ring {
    struct backlog *backlog; /* messages that found its ring full */
};

/* Of a peer. */
struct peer_tcp {
    struct link *links[LINK_COLORS];
};

#endif
