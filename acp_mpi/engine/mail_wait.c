/* Waiting for messages: a short while awake, then asleep until who brings one rings. A receiver that
 * waits copies behind who writes. */
#include "request.h"

#include <sched.h>
#include <string.h>

#define LOOKS 400u /* before a wait that costs more */
#define LOOKS_CROWDED 4u /* another rank wants this processor */

struct request_wait {
    acp_engine *engine;
    acp_request *const *requests;
    uint32_t count, ready;
    uint64_t arm_at;
};

static void attend(struct letter *l, enum letter_attention attention)
{
    __atomic_store_n(&l->attention, attention, __ATOMIC_RELAXED);
}

/* Bytes that are there already. True: there were some. */
static bool follow(acp_request *r)
{
    struct letter *l = r->letter;
    if (!r->buffer || __atomic_load_n(&l->state, __ATOMIC_ACQUIRE) != LETTER_FILLING ||
        __atomic_load_n(&l->place, __ATOMIC_ACQUIRE) != PLACE_BLOCK)
        return false;
    acp_engine *e = r->engine;
    uint64_t filled = __atomic_load_n(&l->filled, __ATOMIC_ACQUIRE);
    const struct heap *h = atomic_load(&e->own->heap);
    filled = filled < r->room ? filled : r->room;
    if (filled <= r->copied || l->block > h->span || filled > h->span - l->block)
        return false;
    memcpy(r->buffer + r->copied, h->base + l->block + r->copied, filled - r->copied);
    r->copied = filled;
    return true;
}

static bool ready(void *context)
{
    struct request_wait *w = context;
    bool arms = false;
    for (uint32_t i = 0; i < w->count; i++) {
        acp_request *r = w->requests[i];
        while (r->letter && follow(r))
            continue;
        if (acp_request_done(r)) {
            w->ready = i;
            return true;
        }
    }
    if (now_ns() < w->arm_at)
        return false;
    for (uint32_t i = 0; i < w->count; i++) {
        struct letter *l = w->requests[i]->letter;
        if (l && l->attention != ATTENTION_SLEEPS) {
            __atomic_store_n(&l->attention, ATTENTION_SLEEPS, __ATOMIC_SEQ_CST);
            arms = true;
        }
    }
    if (!arms)
        return false;
    membarrier_all(); /* who writes after the look finds it */
    return ready(context);
}

static bool soon(struct request_wait *w)
{
    uint32_t looks = w->engine->crowded ? LOOKS_CROWDED : LOOKS;
    for (uint32_t i = 0; i < looks; i++) {
        for (uint32_t k = 0; k < w->count; k++) {
            acp_request *r = w->requests[k];
            if (r->letter && follow(r))
                i = 0;
            if (acp_request_done(r)) {
                w->ready = k;
                return true;
            }
        }
        if (w->engine->crowded || (i & 63) == 63)
            sched_yield();
        else
            cpu_relax();
    }
    return false;
}

int acp_request_wait_any(acp_engine *e, acp_request *const *requests, uint32_t count,
                         int64_t timeout_ns, uint32_t *index)
{
    struct request_wait w = {.engine = e, .requests = requests, .count = count};
    int rc = ACP_OK;
    bool sends = true;
    if (!count)
        return ACP_E_ARGUMENT;
    for (uint32_t i = 0; i < count; i++) {
        sends &= requests[i]->kind == REQUEST_SEND;
        if (requests[i]->letter)
            attend(requests[i]->letter, ATTENTION_WAITS);
    }
    if (!soon(&w)) {
        w.arm_at = now_ns() + SPIN_NS / 2;
        rc = progress_wait(e, ready, &w, timeout_ns,
                           sends ? ACP_DOING_SEND : ACP_DOING_RECEIVE);
    }
    for (uint32_t i = 0; i < count; i++)
        if (requests[i]->letter)
            attend(requests[i]->letter, ATTENTION_NONE);
    if (rc == ACP_OK)
        *index = w.ready;
    return rc;
}

int acp_request_wait(acp_engine *e, acp_request *request, int64_t timeout_ns)
{
    uint32_t index;
    return acp_request_wait_any(e, &request, 1, timeout_ns, &index);
}
