/* One answer for many commands. The sender of dependent atomics needs to know of each only that it is done. So a
 * target that has run several of them, one after the other, sends one answer when it has handled all that came
 * together. An atomic that fails, or has to wait, gets an answer of its own. */
#include "operations/ack.h"
#include "operations/op_table.h"
#include "transport/link.h"
#include "transport/link_io.h"

void ack_send(acp_lane *lane, struct link *link)
{
    struct answers done = link->done;
    if (!done.count)
        return;
    struct message m = {.kind = ACP_REPLY, .from = lane->engine->self, .id = done.last,
                        .flags = ANSWER_TOGETHER | (done.later ? ANSWER_LATER : 0),
                        .b = done.count};
    link->done = (struct answers){.count = 0};
    link_io_answer(lane, link, &m, NULL, 0);
}

void ack_add(acp_lane *lane, struct link *link, const struct message *m)
{
    struct answers *done = &link->done;
    if (done->count && m->id != done->last + 2)
        ack_send(lane, link);
    done->later = m->flags & ANSWER_LATER && (done->later || !done->count);
    done->last = m->id;
    done->count++;
}

uint32_t ack_take(struct link *link, const struct message *m)
{
    uint32_t count = m->b < OPS ? (uint32_t)m->b : OPS; /* no more are under way */
    link->unanswered -= count < link->unanswered ? count : link->unanswered;
    return count;
}
