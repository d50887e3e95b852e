/* Credits: senders that wait for room in a mailbox, and their wake-up when there is some. */
#include "messages/credits.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "messages/mailbox.h"
#include "peers/peer.h"
#include "progress/doorbell.h"

bool credits_available(const struct mailbox *box)
{
    return __atomic_load_n(&box->bytes, __ATOMIC_RELAXED) <= box->bound / 2; /* maybe a moment ago */
}

uint32_t credits_take_waiters(struct heap *h, bool asked, uint32_t slots[MAIL_WANTING])
{
    struct mailbox *box = mailbox_of(h);
    uint32_t count = 0;
    if (likely(!box->wanting[0]) || (!asked && !credits_available(box)))
        return 0;
    for (uint32_t i = 0; i < MAIL_WANTING && box->wanting[i]; i++) {
        slots[count++] = (uint32_t)box->wanting[i] - 1;
        box->wanting[i] = 0;
    }
    return count;
}

void credits_wake(acp_engine *e, const uint32_t slots[MAIL_WANTING], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct peer *p = peer_of_slot(e, slots[i]);
        if (p && (p == e->job.own || peer_attach(e, p) == RELATION_NODE))
            doorbell_ring(e, p);
    }
    /* Senders by link do not come again by themselves, and may have been rung for once. */
    if (unlikely(e->mail.stopped) && credits_available(mailbox_of(mailbox_heap(e, e->job.own))))
        doorbell_kick(e);
}

bool credits_register(struct mailbox *box, uint32_t slot)
{
    uint32_t i = 0;
    while (i < MAIL_WANTING && box->wanting[i] && box->wanting[i] != slot + 1)
        i++;
    if (i < MAIL_WANTING)
        box->wanting[i] = slot + 1;
    return i < MAIL_WANTING;
}
