/* Query of a rank's state, over a connection of its links, by an observer without a rank. The observer proves the
 * secret as all do, has no slot, and queries before any link is named. The rank answers in its progress thread, and
 * keeps nothing of the query. */
#include "inspect/query.h"
#include "core/engine_state.h"
#include "inspect/heap_walk.h"
#include "transport/connection.h"
#include "transport/frame.h"
#include "transport/link_io.h"
#include "transport/seal.h"

size_t query_ask(struct seal *seal, unsigned char question[QUERY_MOST])
{
    struct message m = {.kind = ACP_DOING};
    return seal_write(seal, question, &m, 0, NULL, 0);
}

bool query_answer(const acp_engine *e, const struct wire *wire)
{
    const struct control *c = e->control;
    const _Atomic uint64_t *notice = (const void *)(e->memory.base + NOTICE_OFFSET);
    struct message m = {.kind = ACP_DOING, .dst = e->rank, .src = *notice, .a = layout_doing(c),
                        .b = c->awaited};
    return link_io_send_now(wire, &m, 0);
}

int query_hear(struct seal *seal, unsigned char *answer, size_t size, struct survey_doing *out)
{
    struct frame f;
    enum frame_result rc = seal ? seal_read(seal, answer, size, &f) : frame_read(answer, size, 0, &f);
    if (rc != FRAME_WHOLE || f.total != size || f.message.kind != ACP_DOING)
        return ACP_E_ARGUMENT;
    *out = (struct survey_doing){.rank = (uint32_t)f.message.dst, .doing = (uint32_t)f.message.a,
                                 .awaited = (uint32_t)f.message.b, .notice = f.message.src};
    return ACP_OK;
}
