/* Channels: one sender, one receiver, messages in order, in slots of a ring in the receiver's heap.
 *
 * A call that waits may be made by several threads; they are served one after the other: a thread has the end from
 * acp_channel_open or acp_channel_take until it gives the turn back. */
#ifndef ACP_CHANNELS_H
#define ACP_CHANNELS_H

#include "core/engine.h"
#include "core/messages.h"

typedef struct acp_channel acp_channel;
typedef struct acp_channel_op acp_channel_op; /* a send or receive that goes on beside the program */

#define ACP_CHANNEL_SLOTS_MOST 65536u
#define ACP_CHANNEL_SIZE_MOST ((uint64_t)1 << 38)
#define ACP_CHANNEL_MESSAGE_MOST (((uint64_t)1 << 39) - 1) /* bytes of a message of several slots */

/* Both ends say the same, or are refused at the first use: ACP_E_MISMATCH. */
typedef struct acp_channel_shape {
    uint64_t size;  /* bytes of a slot, or of a segment */
    uint64_t type;  /* of the elements, as a hash; of segments their address, which the receiver's end alone gives */
    uint32_t slots;
    uint32_t sends; /* this end, or the other one */
    bool segments;  /* slots have no bytes: a message says that a segment, which lies elsewhere, is full */
} acp_channel_shape;

enum acp_channel_event { ACP_CHANNEL_READY = 0, ACP_CHANNEL_MET, ACP_CHANNEL_EMPTY };

/* A message, or a piece of one, in its slot. */
typedef struct acp_piece {
    const void *data;
    uint64_t size;
    uint64_t rest;   /* bytes of the message from this piece on */
    uint64_t number; /* for acp_channel_release */
    bool first;
} acp_piece;

typedef struct acp_channel_look {
    bool connected, closed;
    uint64_t pending, held; /* messages in the ring; of the receiver: slots that views keep */
    uint64_t messages, waits;
    acp_channel_shape other; /* once connected */
} acp_channel_look;

uint64_t acp_channel_memory(const acp_channel *end); /* bytes of an open end: of the heap, and private */
uint64_t acp_channel_bytes(uint64_t size, uint32_t slots); /* of the receiver's heap; of segments: with size 0 */

/* `ring`: a block of the own heap of that many bytes, which the receiver's end keeps if this succeeds. The end holds the
 * engine until acp_channel_free. Local; the peer learns of it. */
int acp_channel_new(acp_lane *lane, uint32_t rank, const acp_channel_shape *shape, acp_ga_t ring, acp_channel **end);

/* What they return if not ACP_OK: ACP_E_TIMEOUT, ACP_E_INTERRUPTED; ACP_E_DESTROYED: closed here, or by a reset;
 * ACP_E_LEFT: closed by the other end, all is received; ACP_E_LOST, ACP_E_FINALIZING: so has that process;
 * ACP_E_MISMATCH; ACP_E_HANDLE: the calling thread has the turn already; ACP_E_FULL: views keep all slots. */
int acp_channel_open(acp_channel *end, int64_t timeout_ns); /* a free slot for the caller, with the turn */
#define ACP_CHANNEL_GLANCE ((int64_t)-1) /* as timeout of open and take: a moment, for a caller that keeps others waiting */
/* Where to write `size` bytes for acp_channel_commit; NULL: no memory. */
void *acp_channel_slot(acp_channel *end);
/* The program writes into that slot from now on: acp_channel_slot says where; or no more. ACP_E_DESTROYED: it must not,
 * the end was closed meanwhile. */
int acp_channel_reserve(acp_channel *end, bool begins);
/* Publishes the slot with `size` bytes of `data`, of a message of which `rest` are left. The turn stays. Waits by link,
 * if that has no room; when the time is over nothing of the slot is sent. */
int acp_channel_commit(acp_channel *end, const void *data, uint64_t size, uint64_t rest, bool first, int64_t timeout_ns);
/* All of it, for a message of at most a slot, and of 32 KiB, if a slot is free or soon is, and, by link, that has room:
 * else nothing is sent. */
int acp_channel_send_short(acp_channel *end, const void *data, uint64_t size);
#define ACP_CHANNEL_LONG ((uint64_t)128 << 10) /* from here on: */
/* With the turn: a message straight into the buffer of a receiver that waits. ACP_E_HANDLE: none does; nothing is sent. */
int acp_channel_send_into(acp_channel *end, const void *data, uint64_t size);
int acp_channel_take(acp_channel *end, int64_t timeout_ns, acp_piece *piece); /* with the turn */
int acp_channel_take_next(acp_channel *end, int64_t timeout_ns, acp_piece *piece);
/* As acp_channel_take; a long message may come straight into `buffer`, which is piece->data then. ACP_E_DAMAGED: only a
 * part of it, for a wild pointer has written to the ring. */
int acp_channel_take_into(acp_channel *end, void *buffer, uint64_t room, int64_t timeout_ns, acp_piece *piece);
void acp_channel_release(acp_channel *end, uint64_t number); /* from any thread */
void acp_channel_give_turn(acp_channel *end);
int acp_channel_state(acp_channel *end); /* the result of a call now; ACP_E_BUSY: it would wait */
bool acp_channel_is_far(const acp_channel *end); /* a sender by link: acp_channel_commit may wait */
/* Waits until a call would not (the result of acp_channel_state; with the turn: for the next piece), both ends know each
 * other, or every message that this end has sent has gone back. */
int acp_channel_await(acp_channel *end, enum acp_channel_event event, int64_t timeout_ns);
/* `also`: a receive that ends the wait, too; `which` is `count` then. NULL: none. */
int acp_channel_select(acp_channel *const *ends, uint32_t count, uint32_t from, acp_request *also, int64_t timeout_ns,
                       uint32_t *which);

/* Begins a send of `size` bytes, or a receive of at most that; they end in order, and before a call that waits. `data`
 * stays the engine's until it is done. NULL: no memory. */
acp_channel_op *acp_channel_begin(acp_channel *end, void *data, uint64_t size);
const acp_flag *acp_channel_op_done(const acp_channel_op *op);
int acp_channel_op_wait(acp_channel_op *op, int64_t timeout_ns);
/* ACP_OK: it is done, and nothing was sent or received; ACP_E_BUSY: ask again; ACP_E_HANDLE: too late. */
int acp_channel_op_cancel(acp_channel_op *op);
/* Of one that is done, or of an end that is freed: its result, as above, or ACP_E_TRUNCATED; bytes of the message. */
int acp_channel_op_end(acp_channel_op *op, uint64_t *size);

void acp_channel_look_at(acp_channel *end, acp_channel_look *look);
void acp_channel_close(acp_channel *end); /* local; waits until no other thread is inside a slot */
void acp_channel_free(acp_channel *end);  /* closes it, too; its views must be gone */
void acp_channels_end(acp_engine *engine); /* all of them are closed: a reset or the end comes */

#endif
