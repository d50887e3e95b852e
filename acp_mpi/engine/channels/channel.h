/* An end of a channel, and the ring that both ends of a node see. */
#ifndef ACP_CHANNEL_H
#define ACP_CHANNEL_H

#include "core/channels.h"
#include "core/engine_state.h"
#include "core/state/peer.h"

#include <pthread.h>

#define CHANNEL_HEAD ((uint64_t)128)
#define CHANNEL_BUSY ((uint64_t)1) /* of `turn`: its thread touches the ring */
#define CHANNEL_CONNECTED 1u /* bits of `word`: the sender writes into the ring by store, */
#define CHANNEL_ENDED 2u     /* and the receiver is closed */

/* In the receiver's heap, at a multiple of a line; the slots follow. */
struct channel_ring {
    _Atomic uint64_t word; /* the end's nonce, CHANNEL_CONNECTED and CHANNEL_ENDED */
    _Atomic uint32_t receivers_wait, senders_wait; /* threads that are to be woken */
    _Atomic uint64_t asked; /* number + 1 of a message for which the receiver has a buffer; 0: none (channel_direct.c) */
    _Atomic uint64_t room;  /* of that buffer */
    _Atomic uint32_t processors[2]; /* + 1: where the receiver, and the sender, has waited last */
    unsigned char spare[24];
    _Atomic uint64_t taken; /* slots that have been given back */
    unsigned char spare_too[56];
};

static_assert(sizeof(struct channel_ring) == CHANNEL_HEAD, "two lines");

enum channel_way { CHANNEL_UNKNOWN = 0, CHANNEL_NEAR, CHANNEL_FAR };

struct acp_channel {
    acp_engine *engine;
    struct peer *peer;
    acp_channel *unmet_next;
    uint64_t id; /* its place, and its serial << 32 */
    acp_channel_shape shape, other;
    uint64_t stride;
    uint64_t mask; /* slots - 1; 0: not a power of two */
    uint64_t nonce;
    uint64_t theirs, their_ring, their_nonce; /* once met: the other end's id; where its ring is in its heap */
    struct channel_ring *_Atomic ring; /* the receiver's own; the sender's, if it is near */
    uint64_t block; /* of the own heap; 0: none, or given back. With the engine's lock */
    uint64_t era;
    uint32_t place;
    bool kept; /* by its owner in the program; with the engine's lock */
    bool told; /* the other end knows that it is closed; likewise */
    bool listed; /* among the closed ones that have something to give back; likewise */
    acp_channel *listed_next;
    _Atomic uint32_t way;    /* enum channel_way, of the sender; of the receiver FAR once a frame has come */
    _Atomic bool met, mismatched, peer_closed, closed;
    _Atomic bool reserved; /* the program writes into a slot: the ring must stay */
    _Atomic uint32_t inside;  /* threads that touch the ring without the turn */
    _Atomic uint64_t turn;    /* the thread that has it, | CHANNEL_BUSY; 0: none */
    _Atomic uint32_t turn_waiters;
    _Atomic uint64_t next;    /* number of the next slot to be filled, or taken */
    _Atomic uint64_t taken;   /* slots given back: by the receiver, or as far as the sender knows */
    uint64_t credited;        /* slots given back of which a sender elsewhere has been told */
    uint64_t arrived;         /* slots that have come from there; with the engine's lock */
    _Atomic uint32_t order;   /* lock of `held`, `taken` and `credited`: a few stores long */
    unsigned char *held;      /* by slot: taken and not given back; of a sender: one slot, filled beside the ring */
    _Atomic uint64_t messages, waits;
    bool far;      /* its notes go by link, from the first one on: a slot that goes so must not overtake its offer */
    bool apart;    /* one end is a service, and a yield of this process does not let the other end run */
    _Atomic bool soon; /* the last wait was short */
    bool directly; /* of a receiver: the last message was a long one; with the turn */
    uint32_t vain; /* of a sender: long messages in a row for which no buffer waited; with the turn */
    acp_channel_op *_Atomic queue; /* the oldest send or receive that goes on; changed with the engine's lock */
    acp_channel_op *queue_last;    /* with the engine's lock */
    acp_channel *queued_next;      /* end with a queue; with the engine's lock, as `pass` */
    uint64_t pass;
    bool queue_armed; /* the other end wakes this process for the queue; with the turn */
    bool queue_attends; /* its notes do, too; likewise */
};

static inline uint64_t channel_ring_bytes(uint64_t stride, uint32_t slots)
{
    return CHANNEL_HEAD + slots * stride;
}

static inline uint64_t channel_slot_bytes(const acp_channel_shape *shape)
{
    return shape->segments ? 0 : shape->size;
}

static inline uint64_t channel_place(const struct acp_channel *c, uint64_t number)
{
    return c->mask ? number & c->mask : number % c->shape.slots;
}

static inline uint64_t *channel_stamp(const struct acp_channel *c, struct channel_ring *ring, uint64_t number)
{
    return (uint64_t *)(void *)((unsigned char *)ring + CHANNEL_HEAD + channel_place(c, number) * c->stride);
}

/* number + 1, the first piece of a message, its bytes from this piece on. */
#define CHANNEL_FIRST ((uint64_t)1 << 39)
#define CHANNEL_REST (CHANNEL_FIRST - 1)

static inline uint64_t channel_mark(uint64_t number) { return (number + 1) << 40; }

/* The slot of a frame is full. */
void channel_publish(struct acp_channel *c, struct channel_ring *ring, uint64_t number, uint64_t stamp);
void channel_wake_peer(struct acp_channel *c);
void channel_wake_here(acp_engine *e); /* threads of this process that wait look again */
bool channel_arm(struct acp_channel *c, bool on); /* the ring wakes this process, or no more; false: it is not here */
void channel_connect(struct acp_channel *c); /* a sender looks for the ring, once it knows of it */
int channel_take_piece(struct acp_channel *c, acp_piece *piece); /* with the turn, of an end that is ready */
/* acp_channel_commit without a wait. ACP_E_BUSY: the link has no room; *sent bytes are out, and it comes again. */
int channel_commit_now(struct acp_channel *c, const unsigned char *data, uint64_t size, uint64_t rest, bool first,
                       uint64_t *sent);
/* Brackets a look into the ring; NULL: the end is closed, or has none. */
struct channel_ring *channel_enter(struct acp_channel *c);
void channel_leave(struct acp_channel *c);
uint64_t channel_out_of(struct acp_channel *c); /* slots of a sender that have not come back */
int channel_state(struct acp_channel *c); /* acp_channel_state, as far as notes have been read */
int channel_state_of(struct acp_channel *c, struct channel_ring *ring); /* the same, inside */
bool channel_stirs(struct acp_channel *c, struct channel_ring *ring);   /* most of it: there is a slot, or a message */
void channel_use_up(struct acp_channel *c, bool counts); /* the next number, with the turn; of a message that counts */

/* NULL: the end is closed, or its memory may be unmapped. */
static inline struct channel_ring *channel_ring_of(acp_channel *c)
{
    bool gone = atomic_load(&c->closed) || (c->shape.sends && c->peer->lost);
    return gone ? NULL : atomic_load(&c->ring);
}

static inline void channel_turn_leave(acp_channel *c)
{
    uint64_t turn = atomic_load_explicit(&c->turn, memory_order_relaxed);
    atomic_store_explicit(&c->turn, turn & ~CHANNEL_BUSY, memory_order_release);
}

/* channel_enter with the turn, which costs nothing if that was just taken as busy. */
static inline struct channel_ring *channel_turn_enter(acp_channel *c)
{
    uint64_t turn = atomic_load_explicit(&c->turn, memory_order_relaxed);
    if (!(turn & CHANNEL_BUSY))
        atomic_store(&c->turn, turn | CHANNEL_BUSY);
    struct channel_ring *ring = channel_ring_of(c);
    if (!ring)
        channel_turn_leave(c);
    return ring;
}

/* False: another thread has it, or a queue comes first. */
static inline bool channel_turn_try(acp_channel *c, uint64_t turn)
{
    uint64_t none = 0;
    return !atomic_load(&c->queue) && atomic_compare_exchange_strong(&c->turn, &none, turn);
}

static inline uint64_t channel_turn_of_caller(void) { return (uint64_t)pthread_self() << 1; }

#endif
