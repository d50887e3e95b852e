/* A link: the frames of one process to another and back, in order and once, over one connection after another. link.c
 * opens, resumes and ends it; connection.c is the connection below; tcp_send_queue.c keeps frames until they are
 * acknowledged; protocol_tcp.c sends commands on it. With the lock held. */
#ifndef ACP_LINK_H
#define ACP_LINK_H

#include "core/engine.h"
#include "core/state/transport.h"
#include "transport/frame.h"
#include "transport/tcp_send_queue.h"

struct peer;
struct wire;

#define FLOW_COLOR 0u /* of links that carry messages */

enum link_state { LINK_CALLING = 1, LINK_OPEN, LINK_CLOSED };

/* Answers due for consecutive operations of the peer. */
struct answers {
    uint64_t last;
    uint32_t count;
    bool later; /* all of them may come later */
};

struct link {
    struct link *next;
    uint64_t session; /* number that the opener gave it */
    bool opener;      /* of this process: it calls again when the connection breaks */
    bool resting;     /* without a connection until a frame is to be sent, or the peer needs one: not lost meanwhile */
    bool known;       /* the peer has answered: it knows the session */
    bool sealed;      /* its frames have tags in place of sums */
    uint8_t state;
    bool corked;      /* frames go out together when all input is handled */
    bool held;        /* frames are held back for others: an answer is due that will send them */
    bool urgent;      /* a frame not sent yet may be awaited by a caller */
    bool later;       /* the peer was told that its answer may come later */
    bool more;        /* the last frame of the peer says so: MORE_FOLLOWS */
    bool gathers;     /* the next frame may be held back for others, at most for STREAM_NS */
    uint32_t streak;  /* messages in a row without a pause, and without an input: */
    uint32_t inputs;  /* as many were there at the last one */
    uint64_t mailed_at; /* time of the last one, ns */
    uint32_t color;
    uint32_t told;       /* slots that the peer has rows of */
    uint32_t unanswered; /* commands of this process on it */
    struct answers done; /* commands of the peer that are run but not acknowledged */
    struct peer *peer;
    struct link *twin; /* the other one, if both processes have opened one at a time; NULL */
    struct wire *wire;
    struct outbox out;
    uint64_t received; /* number of frames of the peer that have been run */
    size_t untold;     /* bytes of those that are not acknowledged yet */
    uint64_t heard;    /* time of the last input, ns */
    uint64_t asked;    /* time of the probe that has no answer so far, ns; 0: none */
    bool needed;       /* frames were to be sent when this connection came */
    bool moved;        /* a frame was sent or received on it */
    bool guarded;      /* other ranks rely on it: the peer is probed though no thread waits here */
    uint64_t expected; /* frames of the peer that there were when this connection came */
    /* while there is no connection */
    uint32_t attempt, refusals; /* addresses called in this round; refusals among them */
    int shortage; /* errno if this process could not call; 0 */
    uint32_t strangers;         /* wrong processes met in a row: one may be a flipped bit, more are not */
    uint64_t retry_at, pause;   /* time of the next round; time between two rounds, ns */
    uint64_t lost_at;           /* time at which the peer counts as dead */
    uint64_t silent_at;         /* the same, although its listener still takes calls */
};

/* Its connection carries long transfers, and takes turns of a limited size with the others of the process. */
static inline bool link_is_long(const struct link *link)
{
    return link && link->color >= LINK_LONG;
}

/* Does the answer end a command that is counted in `unanswered`? Queries that are not commands have answers, too, and
 * a silent part is answered only if it has failed. */
static inline bool link_counts(const struct message *m)
{
    return m->kind < ACP_REPLY && !(m->kind == ACP_PUT && m->flags & PART_SILENT);
}

#define UNSENT_MOST ((size_t)256 << 10)      /* bytes not sent above which large transfers pause, and long ones: */
#define UNSENT_LONG_MOST ((size_t)512 << 10) /* each turn wakes the receiver, which costs as much as 64 KiB */
#define HELD_MOST ((size_t)4 << 20)     /* bytes not acknowledged above which they pause, too */
#define FLOOD ((size_t)64 << 20)        /* more than a peer that keeps to the protocol can have to get */
#define UNTOLD_MOST ((size_t)1 << 20)   /* acknowledged at once, if no other frame carries it */
#define IN_BUFFER (4 * FRAME_MOST)
#define TURN_BYTES (8 * FRAME_MOST) /* of a long transfer, sent or read before other connections have their turn */
#define BRIEF_TURN_BYTES (FRAME_MOST / 2) /* while others have been busy lately: */
#define BRIEF_TURNS 64u
#define COMPANY_BYTES ((size_t)16 << 10) /* bytes that are sent at once */

/* Its life; the times are in keepalive.c */
struct link *link_to(acp_lane *lane, struct peer *p, uint32_t color);
struct link *link_new(acp_engine *e, struct peer *p, uint32_t color);
/* Of one with a twin: for that, if both are to use it, and all is acknowledged. */
void link_leave(acp_engine *e, struct link *link);
bool link_is_left(const acp_engine *e, const struct link *link); /* likewise: the peer leaves it, when all is acknowledged */
void link_call(acp_lane *lane, struct link *link);
bool links_reach(const acp_engine *e, const struct peer *p); /* there is one, maybe without a connection */
void link_give_up(acp_lane *lane, struct link *link); /* the peer is dead, or has ended */
void link_without_wire(acp_engine *e, struct link *link);
void link_hold(acp_engine *e, struct link *link);
void link_unhold(acp_engine *e, struct link *link);

void link_watch(acp_engine *e, struct peer *p, uint32_t color); /* watches the link of a peer of another node */
bool link_short_lasts(acp_engine *e); /* are descriptors, or memory, still short? */
void links_bury(acp_engine *e);
void links_flush(acp_engine *e); /* last of all, without other threads: what is written goes out */
void links_close(acp_engine *e);
void links_lost(acp_lane *lane, struct peer *p);
void link_broken(acp_lane *lane, struct wire *wire); /* the connection, with a link or without */
void link_wake(acp_engine *e, struct link *link); /* a resting one is to have a connection */
void link_rest(acp_engine *e, struct link *link); /* its connection ends in order, on both sides */
void link_crowded(acp_engine *e); /* connections are too many, or descriptors too few */
void link_taken(acp_engine *e, struct link *link); /* a listener has taken the call */
void link_knocked(acp_engine *e, struct wire *wire);
void link_put_off(acp_engine *e, struct wire *wire); /* the peer lives, and is short of descriptors */
void links_knocked_at(acp_lane *lane, const struct peer *p);

#endif
