/* Memory kept for answers to messages, and for messages that come by link. */
#include "operations/reserve.h"
#include "base/likely.h"
#include "core/engine_state.h"
#include "core/upcalls.h"
#include "transport/connection_input.h"
#include "transport/frame.h"
#include "transport/shm_ring.h"
#include "transport/tcp_send_queue.h"

#include <stdlib.h>

static const size_t kept_size[RESERVE_BLOCKS] = {KEPT_SMALL, KEPT_SMALL, KEPT_SMALL + FRAME_PAYLOAD_MOST};

static bool blocks_provide(acp_engine *e)
{
    for (uint32_t i = 0; i < RESERVE_BLOCKS; i++)
        if (!e->ops.reserve[i] && !(e->ops.reserve[i] = malloc(kept_size[i])))
            return false;
    return true;
}

void *reserve_take(acp_engine *e, size_t size)
{
    void *memory = malloc(size);
    for (uint32_t i = 0; unlikely(!memory) && i < RESERVE_BLOCKS; i++) {
        if (size <= kept_size[i]) {
            memory = e->ops.reserve[i];
            e->ops.reserve[i] = NULL;
        }
    }
    return memory;
}

void reserve_close(acp_engine *e)
{
    for (uint32_t i = 0; i < RESERVE_BLOCKS; i++) {
        free(e->ops.reserve[i]);
        e->ops.reserve[i] = NULL;
    }
}

bool reserve_ready(acp_engine *e)
{
    bool is = shm_ring_backlog_provide(e) && e->up->signals_provide(e) &&
              (!e->tcp.links || (tcp_send_queue_provide(&e->tcp.outbox_spares) && blocks_provide(e)));
    if (unlikely(!is))
        connection_input_starve(e);
    return is;
}
