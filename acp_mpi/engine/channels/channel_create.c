/* An end is made; the receiver's with its ring. */
#include "base/linux.h"
#include "channels/channel.h"
#include "channels/channel_notes.h"
#include "core/rank_slot.h"
#include "memory/heap.h"
#include "messages/mailbox.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/rank_table.h"

#include <stdlib.h>
#include <string.h>

static uint64_t stride_of(uint64_t size)
{
    return (size + 8 + 63) & ~(uint64_t)63;
}

uint64_t acp_channel_bytes(uint64_t size, uint32_t slots)
{
    return channel_ring_bytes(stride_of(size), slots) + 48; /* blocks begin at multiples of 16 */
}

uint64_t acp_channel_memory(const acp_channel *c)
{
    if (c->shape.sends)
        return sizeof *c + (c->held ? c->shape.size : 0);
    return sizeof *c + c->shape.slots + acp_channel_bytes(channel_slot_bytes(&c->shape), c->shape.slots);
}

/* The receiver's ring, in a block of its heap. */
static void make_ring(acp_channel *c, acp_ga_t ga)
{
    struct heap *h = mailbox_heap(c->engine, c->engine->job.own);
    c->block = acp_ga_offset(ga) - h->position;
    struct channel_ring *ring = (void *)(h->base + ((c->block + 63) & ~(uint64_t)63));
    memset(ring, 0, sizeof *ring);
    for (uint32_t i = 0; i < c->shape.slots; i++)
        *channel_stamp(c, ring, i) = 0;
    atomic_store(&ring->word, c->nonce);
    atomic_store(&c->ring, ring);
}

int acp_channel_new(acp_lane *lane, uint32_t rank, const acp_channel_shape *shape, acp_ga_t ga, acp_channel **end)
{
    acp_engine *e = lane->engine;
    struct peer *p = newcomers_find(e, rank) ? peer_of_slot(e, rank_slot_of(e, rank)) : NULL;
    acp_channel *c = p ? calloc(1, sizeof *c) : NULL;
    if (c && !shape->sends)
        c->held = calloc(shape->slots, 1);
    if (!c || (!shape->sends && !c->held)) {
        free(c);
        return lane_fail(lane, p ? ACP_E_SYSTEM : ACP_E_RANK, 0, sizeof *c);
    }
    c->engine = e;
    c->peer = p;
    c->shape = *shape;
    c->stride = stride_of(channel_slot_bytes(shape));
    c->mask = shape->slots & (shape->slots - 1) ? 0 : shape->slots - 1;
    c->kept = true;
    bool service = rank_table_service(e, e->self) || rank_table_service(e, p->slot);
    c->apart = service && p->row.node == e->config.node && !linux_yields_to(p->row.pid); /* three files of /proc are read */
    c->far = mailbox_is_far(e, p);
    pthread_mutex_lock(&e->lock);
    c->nonce = (e->row.nonce ^ (e->channels.serial + 1) * 0x9e3779b97f4a7c15ull) << 2 | (uint64_t)1 << 63;
    if (!shape->sends)
        make_ring(c, ga);
    int rc = channel_notes_offer(c);
    pthread_mutex_unlock(&e->lock);
    if (rc != ACP_OK) {
        free(c->held);
        free(c);
        return lane_fail(lane, rc, 0, sizeof *c);
    }
    acp_engine_hold(e);
    *end = c;
    return ACP_OK;
}
