/* The methods of a workspace's part. Changes of bytes are made in the section, with its version odd: readers see all
 * of a call or nothing. There is no journal of the bytes, so a killed process may leave part of a call done, whole
 * numbers each. */
#include "containers/workspace.h"
#include "base/linux.h"
#include "containers/container.h"
#include "containers/map_bucket.h"
#include "containers/reduce_ops.h"
#include "core/method.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <string.h>

#if defined(__SANITIZE_THREAD__) /* it cannot know that a torn read is thrown away */
#define LOOKS 0u
#else
#define LOOKS 100u /* at bytes that change, before the lock is taken */
#endif

static int workspace_create(struct hold *hold, struct container *container, const uint64_t words[4])
{
    struct workspace *w = (struct workspace *)container;
    uint64_t block = 0;
    int rc = words[0] ? transaction_take(hold, words[0], &block) : ACP_OK;
    transaction_set(hold, &w->data, block);
    transaction_set(hold, &w->size, words[0]);
    return rc;
}

static int workspace_clear(struct hold *hold, struct container *container)
{
    struct workspace *w = (struct workspace *)container;
    transaction_begin(hold);
    if (w->data)
        transaction_drop(hold, w->data);
    transaction_set(hold, &w->data, 0);
    transaction_set(hold, &w->size, 0);
    transaction_commit(hold);
    return ACP_OK;
}

const struct container_type workspace_type = {
    .size = sizeof(struct workspace), .create = workspace_create, .clear = workspace_clear};

/* NULL: outside of the workspace. */
static unsigned char *workspace_place(acp_lane *lane, const struct heap *h, const struct workspace *w,
                                      uint64_t at, uint64_t size, acp_ga_t ga)
{
    uint64_t data = __atomic_load_n(&w->data, __ATOMIC_RELAXED);
    uint64_t room = __atomic_load_n(&w->size, __ATOMIC_RELAXED);
    if (unlikely(room && !container_inside(h, data, room))) {
        lane->fault = (acp_fault){.status = ACP_E_DAMAGED, .rank = -1};
        return NULL;
    }
    if (unlikely(size > room || at > room - size)) {
        lane_fail(lane, ACP_E_ARGUMENT, ga, size);
        return NULL;
    }
    return h->base + data + at;
}

static int enter_at(struct hold *hold, acp_lane *lane, const struct acp_call *c, uint64_t at,
                    uint64_t size, unsigned char **bytes)
{
    struct container *container;
    int rc = container_enter(hold, lane, c, KIND_WORKSPACE, &container);
    if (rc != ACP_OK)
        return rc;
    *bytes = workspace_place(lane, hold->heap, (struct workspace *)container, at, size, c->object);
    if (*bytes)
        return ACP_OK;
    rc = lane->fault.status;
    transaction_leave(hold);
    return rc;
}

int workspace_method_look(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct container *container;
    int rc = container_enter(&hold, lane, c, KIND_WORKSPACE, &container);
    if (rc != ACP_OK)
        return rc;
    const struct workspace *w = (struct workspace *)container;
    c->result[0] = w->size;
    c->result[1] = w->data ? container_ga(c, hold.heap, w->data) : 0;
    transaction_leave(&hold);
    return ACP_OK;
}

int workspace_method_read(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct heap *h;
    unsigned char *bytes;
    struct workspace *w = (struct workspace *)container_find(lane, c, KIND_WORKSPACE, &h);
    if (unlikely(!w))
        return lane->fault.status;
    for (uint32_t look = LOOKS; look; look--) {
        uint64_t looked = transaction_version(&w->head.section);
        if (looked & 1) {
            linux_cpu_relax();
            continue;
        }
        bytes = workspace_place(lane, h, w, c->b, c->out_room, c->object);
        if (bytes)
            memcpy(c->out, bytes, c->out_room);
        if (!transaction_unchanged(&w->head.section, looked))
            continue;
        c->out_size = bytes ? c->out_room : 0;
        if (!container_lives(&w->head, c))
            return container_gone(lane, c);
        return bytes ? ACP_OK : lane->fault.status;
    }
    int rc = enter_at(&hold, lane, c, c->b, c->out_room, &bytes);
    if (rc != ACP_OK)
        return rc;
    memcpy(c->out, bytes, c->out_size = c->out_room);
    transaction_leave(&hold);
    return ACP_OK;
}

int workspace_method_write(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    unsigned char *bytes;
    int rc = enter_at(&hold, lane, c, c->b, c->in_size, &bytes);
    if (rc != ACP_OK)
        return rc;
    transaction_begin(&hold);
    memcpy(bytes, c->in, c->in_size);
    transaction_commit(&hold);
    transaction_leave(&hold);
    return ACP_OK;
}

static uint64_t width_of(uint64_t letter)
{
    switch (letter) {
    case 'b': case 'B': return 1;
    case 'h': case 'H': return 2;
    case 'i': case 'I': case 'f': return 4;
    case 'q': case 'Q': case 'd': return 8;
    default: return 0;
    }
}

int workspace_method_add(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    unsigned char *bytes;
    uint64_t letter = c->b >> WORKSPACE_LETTER, at = c->b & (((uint64_t)1 << WORKSPACE_LETTER) - 1);
    uint64_t width = width_of(letter);
    if (!width || at % width || c->in_size % width)
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    int rc = enter_at(&hold, lane, c, at, c->in_size, &bytes);
    if (rc != ACP_OK)
        return rc;
    transaction_begin(&hold);
    for (uint64_t i = 0; i < c->in_size; i += width)
        reduce_ops_combine(letter, PUT_ADD, bytes + i, (const unsigned char *)c->in + i);
    transaction_commit(&hold);
    transaction_leave(&hold);
    return ACP_OK;
}

int workspace_method_zero(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    unsigned char *bytes;
    uint64_t size;
    if (c->in_size != sizeof size)
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    memcpy(&size, c->in, sizeof size);
    int rc = enter_at(&hold, lane, c, c->b, size, &bytes);
    if (rc != ACP_OK)
        return rc;
    transaction_begin(&hold);
    memset(bytes, 0, size);
    transaction_commit(&hold);
    transaction_leave(&hold);
    return ACP_OK;
}
