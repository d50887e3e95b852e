/* Containers: their handles, how a method finds and enters one, and calls of methods. */
#include "containers/container.h"
#include "core/method.h"
#include "memory/translate.h"
#include "operations/method_call.h"

bool container_lives(const struct container *container, const struct acp_call *c)
{
    uint64_t serial = __atomic_load_n(&container->serial, __ATOMIC_ACQUIRE);
    return likely(serial == c->a && serial);
}

int container_gone(acp_lane *lane, const struct acp_call *c)
{
    lane_fail(lane, ACP_E_DESTROYED, c->object, 0);
    lane->fault.rank = acp_ga_rank(c->object);
    return ACP_E_DESTROYED;
}

struct container *container_find(acp_lane *lane, const struct acp_call *c, uint64_t kind,
                                 struct heap **heap)
{
    struct container *k = container_place(lane, c->object, heap);
    if (likely(k && container_lives(k, c) && (kind == KIND_ANY || k->kind == kind) &&
               k->era == (*heap)->head->nonce))
        return k;
    if (k)
        container_gone(lane, c);
    return NULL;
}

int container_enter(struct hold *hold, acp_lane *lane, const struct acp_call *c, uint64_t kind,
                    struct container **container)
{
    struct heap *h;
    struct container *k = *container = container_find(lane, c, kind, &h);
    if (unlikely(!k))
        return lane->fault.status;
    int rc = transaction_enter(hold, lane, &k->section, h, lane->patience_ns);
    if (likely(rc == ACP_OK && container_lives(k, c)))
        return ACP_OK;
    if (rc == ACP_OK) {
        transaction_leave(hold);
        rc = container_gone(lane, c);
    }
    return rc;
}

bool acp_near(acp_lane *lane, acp_ga_t ga)
{
    return translate_find(lane, ROLE_SRC, ga, 1) != NULL;
}

int acp_container_here(acp_lane *lane, struct acp_call *c)
{
    if (unlikely(!translate_find(lane, ROLE_SRC, c->object, 1)))
        return lane->fault.status != ACP_OK ? lane->fault.status : ACP_E_BUSY;
    lane->patience_ns = lane->index == LANE_CALLER ? 0 : ACP_FOREVER;
    int rc = method_call_run(lane, c);
    lane->patience_ns = 0;
    return rc;
}

int acp_container_call(acp_lane *lane, struct acp_call *c, acp_handle_t *pending)
{
    *pending = 0;
    if (translate_find(lane, ROLE_SRC, c->object, 1))
        return acp_container_here(lane, c);
    return lane->fault.status != ACP_OK ? lane->fault.status : acp_call(lane, c, pending);
}
