/* A wire: one TCP connection between two processes, being opened or open. A link speaks on
 * one wire at a time and outlives it. All with the lock held. */
#ifndef ACP_WIRE_H
#define ACP_WIRE_H

#include "transport/listen.h"
#include "transport/frame.h"
#include "transport/handshake.h"
#include "operations/op.h"

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
bool wire_knows(acp_engine *e, struct wire *wire); /* does this process know who has called? */
void wire_want(acp_engine *e, struct wire *wire, bool writing);
void wire_fast(acp_engine *e, struct wire *wire, bool fasts);
void wire_broken(acp_lane *lane, struct wire *wire);

void wire_accept(acp_lane *lane);
void wire_ready(acp_lane *lane, uint32_t number, uint32_t events);
/* connection_input.c */
void wire_connected(acp_lane *lane, struct wire *wire);
bool wire_readable(acp_lane *lane, struct wire *wire); /* false: nothing had come */
/* socket_options.c: a new socket; one whose round trip is known */
void wire_tune(const acp_engine *e, int fd);
void wire_pace(int fd);
uint64_t wires_tick(acp_lane *lane, uint64_t now); /* the next deadline */
void wires_close(acp_engine *e);
void wires_bury(acp_engine *e); /* when nothing can refer to closed ones any more */

/* What the link is told. link_session.c: */
void link_wire_up(acp_lane *lane, struct wire *wire); /* both sides have proved the secret */
void session_go_on(acp_lane *lane, struct wire *wire); /* there is room for what is said first */
void session_begin(acp_lane *lane, struct wire *wire, const struct message *m);
void session_refuse(const acp_engine *e, const struct wire *wire); /* the peer counts as dead */
void session_put_off(const struct wire *wire); /* the peer is to call later: no descriptor is left here */
void session_knock(const struct wire *wire); /* the peer is to call */
/* link.c: */
void link_wire_down(acp_lane *lane, struct wire *wire); /* closed already */
void link_taken(acp_engine *e, struct link *link); /* somebody listens there */
void link_knocked(acp_engine *e, struct wire *wire);
void link_put_off(acp_engine *e, struct wire *wire); /* the peer lives, and is short of descriptors */
void links_knocked_at(acp_lane *lane, const struct peer *p);
/* link_io.c: */
uint64_t link_expects(const struct wire *wire); /* the number of the next frame */
/* Of its payload the sum is not checked yet; false: it is wrong, and nothing has been done. */
bool link_frame(acp_lane *lane, struct wire *wire, const struct frame *frame);
void link_received(acp_lane *lane, struct wire *wire); /* all that had come */
void link_writable(acp_lane *lane, struct wire *wire);
/* A frame without a number, at once: it concerns the wire, not what is said on the link. */
bool wire_say(const struct wire *wire, const struct message *m, uint64_t ack);
/* newcomers.c: as a frame, some of those up to this newcomer, of whom the peer knows `told`; its size */
#define INTRODUCTION_MOST ((size_t)17 << 10)
size_t growth_introduce(const acp_engine *e, uint32_t *told, unsigned char *frame);

#endif
