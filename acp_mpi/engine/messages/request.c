/* Requests come and go; each lane has some for its next calls. */
#include "messages/request.h"
#include "core/engine_state.h"
#include "messages/rendezvous_get.h"
#include "progress/doorbell.h"
#include "progress/progress.h"

#include <stdlib.h>

#define AT_HAND 64u

acp_request *request_new(acp_lane *lane, enum request_kind kind)
{
    acp_request *r = lane->requests;
    if (likely(r != NULL)) {
        lane->requests = r->next;
        lane->request_count--;
    } else if (!(r = malloc(sizeof *r))) {
        lane_fail(lane, ACP_E_SYSTEM, 0, sizeof *r);
        return NULL;
    }
    *r = (acp_request){.engine = lane->engine, .kind = (uint8_t)kind,
                       .era = lane->engine->mail.era};
    if (kind == REQUEST_SEND)
        atomic_fetch_add(&lane->engine->mail.sends_open, 1);
    return r;
}

void request_free(acp_lane *lane, acp_request *r)
{
    if (r->kind == REQUEST_SEND)
        atomic_fetch_sub(&lane->engine->mail.sends_open, 1);
    free(r->own);
    if (r->pull)
        rendezvous_get_free(r);
    acp_sources_free(r->among);
    if (lane->request_count == AT_HAND) {
        free(r);
        return;
    }
    r->next = lane->requests;
    lane->requests = r;
    lane->request_count++;
}

void requests_close(acp_engine *e)
{
    for (acp_request *r = e->mail.waiting, *next; r; r = next) { /* the others belong to their callers */
        next = r->next;
        if (r->alone)
            free(r);
    }
    for (acp_request *r; (r = e->mail.unwanted);) {
        e->mail.unwanted = r->next;
        rendezvous_get_drop(r);
        free(r);
    }
    for (uint32_t i = 0; i < ATTACH_LANES; i++) {
        acp_lane *lane = &e->lanes[i];
        for (acp_request *r; (r = lane->requests);) {
            lane->requests = r->next;
            free(r);
        }
        lane->request_count = 0;
    }
}

void request_over(acp_request *r, int status)
{
    acp_engine *e = r->engine;
    r->status = status;
    atomic_store_explicit(&r->over, 1, memory_order_release); /* from here it may be freed */
    atomic_thread_fence(memory_order_seq_cst);
    progress_event(e);
    if (atomic_load(&e->control->asleep))
        doorbell_kick(e);
}
