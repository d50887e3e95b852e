/* A wire: one TCP connection between two processes, being opened or open. A link speaks on
 * one wire at a time and outlives it. All with the lock held. */
#ifndef ACP_CONNECTION_H
#define ACP_CONNECTION_H

#include "transport/handshake.h"
#include "transport/listen.h"

struct link;
struct peer;

enum wire_state { WIRE_CONNECTING = 1, WIRE_HANDSHAKE, WIRE_OPEN, WIRE_CLOSED };

struct wire {
    uint32_t number;
    int fd;
    uint8_t state;
    bool accepted;
    bool neighbour; /* from an address of a host of the job */
    uint8_t source[ENDPOINT_SOURCE];
    bool spare;     /* its descriptor is the last: the peer is told so, and no more */
    bool writing; /* waits for the socket to take more */
    bool fasts;   /* and for memory: nothing is read meanwhile */
    bool refused;  /* nobody listens there */
    bool stranger; /* somebody does who says to be another process, which nothing proves */
    struct peer *peer; /* NULL: an accepted one, before its handshake */
    struct link *link; /* NULL: an accepted one, before it has said which */
    acp_handshake *handshake;
    uint64_t deadline; /* of one of which the peer has not named the link; 0: it has */
    unsigned char *in; /* with the begin of a frame whose rest has not come */
    size_t in_begin, in_end;
    /* what is said first on one that calls */
    bool presented;       /* all but `first` is said */
    uint32_t introduced;  /* slots that the peer knows of */
    unsigned char *first; /* what the socket had no room for */
    size_t first_size;
    struct wire *next_dead;
};

/* Calls an address of the peer; NULL: errno. */
struct wire *wire_call(acp_engine *e, struct link *link, uint32_t attempt);
void wire_close(acp_engine *e, struct wire *wire);
void wire_opened(acp_engine *e, struct wire *wire); /* both have named its link: no deadline any more */
void wire_want(acp_engine *e, struct wire *wire, bool writing);
void wire_fast(acp_engine *e, struct wire *wire, bool fasts);
void wire_broken(acp_lane *lane, struct wire *wire);

void wire_accept(acp_lane *lane);
void wire_ready(acp_lane *lane, uint32_t number, uint32_t events);
uint64_t wires_tick(acp_lane *lane, uint64_t now); /* the next deadline */
void wires_close(acp_engine *e);
void wires_bury(acp_engine *e); /* when nothing can refer to closed ones any more */

void wire_accept(acp_lane *lane);
void wire_ready(acp_lane *lane, uint32_t number, uint32_t events);

#endif
