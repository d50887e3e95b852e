/* Long messages straight from the sender's memory into the buffer of a receiver that waits: both processors copy, and no
 * slot is written.
 *
 * The receiver posts a receive of a message in a context of the ring's, whose tag is the channel's next number, and stores
 * that number in the ring, as `asked`. A sender that finds its own next number there sends a message, if the receive is
 * still posted, and the number is used up on both sides. Else it goes by its slot, which the receiver looks at all the
 * time. The receiver takes `asked` back first, then ends the receive: then that has met the message, or never will. */
#include "channels/channel_direct.h"
#include "base/linux.h"
#include "channels/channel.h"
#include "core/membarrier.h"
#include "core/messages.h"
#include "core/state/peer.h"
#include "memory/transaction.h"
#include "messages/recv_wait.h"
#include "messages/send.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/wait.h"

#include <pthread.h>

#define LOOK_BYTES 1024u /* one look while they could be copied */
#define LOOKS_MOST ((uint64_t)1024)
#define LOOKS_LONG 16u   /* times as many, for one message among so many that find no buffer: */
#define LOOKS_AGAIN 32u

static acp_envelope envelope_of(const acp_channel *c, uint64_t nonce, uint64_t number, uint64_t size)
{
    uint32_t rank = rank_table_rank(c->engine, c->peer->slot);
    return (acp_envelope){.context = nonce, .source = rank, .tag = (int64_t)(number & INT32_MAX), .size = size};
}

/* A receiver that has just got a long message comes again before its sender could copy this one. One that is behind, and
 * empties slots, is waited for now and then until it has caught up. */
static bool is_asked(acp_channel *c, struct channel_ring *ring, uint64_t size)
{
    uint64_t wanted = c->next + 1, looks = 0;
    if (!c->engine->progress.crowded)
        looks = (size / LOOK_BYTES < LOOKS_MOST ? size / LOOK_BYTES : LOOKS_MOST) *
                (c->vain == 0 ? 1 : c->vain % LOOKS_AGAIN == 1 ? LOOKS_LONG : 0);
    while (atomic_load(&ring->asked) != wanted && looks--)
        linux_cpu_relax();
    bool is = atomic_load(&ring->asked) == wanted && atomic_load(&ring->room) >= size;
    c->vain = is ? 0 : c->vain + 1;
    return is;
}

int acp_channel_send_into(acp_channel *c, const void *data, uint64_t size)
{
    struct channel_ring *ring = size >= CHANNEL_LONG && c->way == CHANNEL_NEAR ? channel_turn_enter(c) : NULL;
    if (!ring)
        return ACP_E_HANDLE;
    acp_lane *lane = is_asked(c, ring, size) ? acp_lane_take(c->engine) : NULL;
    channel_turn_leave(c);
    if (!lane)
        return ACP_E_HANDLE;
    acp_request *request = NULL;
    acp_envelope m = envelope_of(c, c->their_nonce, c->next, size);
    transaction_fault_point();
    int rc = send_posted(lane, (uint32_t)m.source, &m, data, &request);
    if (request)
        rc = acp_request_end(lane, request, NULL);
    acp_lane_give(lane);
    if (rc == ACP_OK)
        channel_use_up(c, true);
    return rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED ? ACP_E_HANDLE : rc == ACP_E_CLOSED ? ACP_E_DESTROYED : rc;
}

struct slot_wait {
    acp_channel *end;
    const acp_request *direct;
    bool asks; /* the ring wakes this thread */
};

static bool would_not_wait(void *context)
{
    struct slot_wait *w = context;
    if (channel_state(w->end) != ACP_E_BUSY)
        return true;
    if (w->asks || !recv_wait_may_sleep(w->direct))
        return false;
    w->asks = channel_arm(w->end, true);
    membarrier_wait(w->end->engine);
    return channel_state(w->end) != ACP_E_BUSY;
}

/* Until the message has come by either way; ACP_OK: into the buffer; ACP_E_TRUNCATED: so, but another room than the
 * buffer's was read in the ring. ACP_E_CANCELLED: not there, and the slot or the state
 * of the end says more. With the turn, and inside. */
static int receive(acp_channel *c, acp_lane *lane, struct channel_ring *ring, void *buffer, uint64_t room,
                   int64_t timeout_ns, uint64_t *size)
{
    acp_request *request;
    acp_envelope m = envelope_of(c, c->nonce, c->next, room);
    if (acp_receive(lane, &m, buffer, &request) != ACP_OK)
        return ACP_E_CANCELLED;
    atomic_store(&ring->room, room);
    atomic_store(&ring->asked, c->next + 1);
    transaction_fault_point();
    struct slot_wait slots = {.end = c, .direct = request};
    atomic_fetch_add_explicit(&c->waits, 1, memory_order_relaxed);
    int waited = recv_wait_any(c->engine, &request, 1, would_not_wait, &slots, false, ACP_DOING_RECEIVE, timeout_ns);
    if (slots.asks)
        channel_arm(c, false);
    atomic_store(&ring->asked, 0);
    transaction_fault_point();
    int rc = acp_request_end(lane, request, &m);
    *size = m.size;
    switch (rc) {
    case ACP_E_CANCELLED:
        return waited == ACP_OK ? rc : waited;
    case ACP_E_LOST: /* what its sender had sent before is in the slots */
    case ACP_E_FINALIZING:
        return ACP_E_CANCELLED;
    case ACP_E_CLOSED:
        return ACP_E_DESTROYED;
    default:
        return rc;
    }
}

int acp_channel_take_into(acp_channel *c, void *buffer, uint64_t room, int64_t timeout_ns, acp_piece *piece)
{
    if (room < CHANNEL_LONG || !c->directly || timeout_ns == 0 || c->way == CHANNEL_FAR ||
        !channel_turn_try(c, channel_turn_of_caller()))
        return acp_channel_take(c, timeout_ns, piece);
    acp_lane *lane = acp_lane_take(c->engine);
    struct channel_ring *ring = lane ? channel_enter(c) : NULL;
    uint64_t number = c->next, size = 0, start = linux_now_ns();
    int rc = ring && channel_state(c) == ACP_E_BUSY ? receive(c, lane, ring, buffer, room, timeout_ns, &size)
                                                        : ACP_E_CANCELLED;
    if (rc == ACP_OK || rc == ACP_E_TRUNCATED) {
        *piece = (acp_piece){.data = buffer, .size = size, .rest = size, .number = number, .first = true};
        c->held[channel_place(c, number)] = 1;
        channel_use_up(c, true);
    }
    if (ring)
        channel_leave(c);
    if (lane)
        acp_lane_give(lane);
    if (rc == ACP_E_TRUNCATED) {
        acp_channel_release(c, number);
        rc = ACP_E_DAMAGED;
    }
    if (rc == ACP_E_CANCELLED && (rc = acp_channel_await(c, ACP_CHANNEL_READY, wait_left(timeout_ns, start))) == ACP_OK)
        rc = channel_take_piece(c, piece);
    if (rc != ACP_OK)
        acp_channel_give_turn(c);
    return rc;
}
