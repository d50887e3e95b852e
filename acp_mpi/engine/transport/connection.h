/* A connection: TCP between two processes, being opened or open. A link uses one connection at a time and outlives it.
 * All with the lock held. */
#ifndef ACP_CONNECTION_H
#define ACP_CONNECTION_H

#include "transport/handshake.h"
#include "transport/listen.h"

struct link;
struct peer;
struct seal;

#define HANDSHAKE_NS ((uint64_t)5000000000) /* time for one */
#define PENDING_MOST 256u                   /* handshakes of calls at a time */

enum wire_state { WIRE_CONNECTING = 1, WIRE_HANDSHAKE, WIRE_OPEN, WIRE_CLOSED };

struct wire {
    uint32_t number;
    int fd;
    uint8_t state;
    bool accepted;
    bool neighbour; /* from an address of a host of the job */
    uint8_t source[ENDPOINT_SOURCE];
    bool spare;     /* it has the spare descriptor: the peer is told that, and nothing else */
    bool writing; /* it waits until the socket takes more */
    bool fasts;   /* it waits for memory: nothing is read meanwhile */
    bool refused;  /* no listener there */
    bool stranger; /* a listener claims to be another process, without proof */
    struct peer *peer; /* NULL: an accepted one, before its handshake */
    struct link *link; /* NULL: an accepted one, before it has named its link */
    acp_handshake *handshake;
    struct seal *seal; /* its keys; NULL: frames have sums only */
    uint64_t deadline; /* of a connection without a link's name from the peer; 0: it is named */
    unsigned char *in; /* holds the begin of a frame until the rest comes */
    size_t in_begin, in_end;
    /* first frames of the calling side */
    bool presented;       /* all of them but `first` are sent */
    uint32_t introduced;  /* slots that the peer knows of */
    unsigned char *first; /* bytes that the socket had no room for */
    size_t first_size;
    struct wire *next_dead;
};

/* Calls an address of the peer; NULL: errno. */
struct wire *connection_call(acp_engine *e, struct link *link, uint32_t attempt);
uint8_t connection_protection(const acp_engine *e, bool loopback); /* acp_protection of its frames, never the default */
void connection_close(acp_engine *e, struct wire *wire);
void connection_opened(acp_engine *e, struct wire *wire); /* the link is named on both sides: the deadline ends */
void connection_want(acp_engine *e, struct wire *wire, bool writing);
void connection_pause(acp_engine *e, struct wire *wire, bool fasts);
/* A frame, a caller or a peer's call finds no descriptor, or no memory (errno). */
void connection_short_begins(acp_engine *e, int error);

/* Of a peer's call; by the spare descriptor it is only told to call later. NULL: no memory, or no descriptor. */
struct wire *connection_accepted(acp_engine *e, int fd, const uint8_t *source, bool neighbour, bool spare);
void connection_spare_over(acp_engine *e);
void connection_listen_later(acp_engine *e, uint64_t when);
uint64_t connection_tick(acp_engine *e, uint64_t now); /* accepts again, if it is time; when next */
void connection_close_all(acp_engine *e);
void connection_reclaim(acp_engine *e); /* when nothing can refer to closed ones any more */

#endif
