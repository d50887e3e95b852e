#ifndef ACP_DELIVER_H
#define ACP_DELIVER_H

#include "messages/mailbox.h"

struct peer;

/* May this process write where `to` keeps its own things? And does so, in the buffer of the
 * receive, which waits for these bytes and is not freed meanwhile. ACP_E_BUSY: refused. */
bool deliver_vm_usable(const acp_engine *e, const struct peer *to);
int deliver_fill_vm(acp_lane *lane, const struct landing *l, uint64_t at, const unsigned char *data,
                    uint64_t size);
/* A message without any byte brought is removed, unless a receive or a probe has it: ACP_E_HANDLE. With a `note` the
 * receive or probe that has it, now or later, gets that alone. ACP_E_BUSY: call again. */
int deliver_withdraw(acp_lane *lane, struct landing *landing, const uint64_t *note);

/* The bytes, holding no section. First deliver_open: ACP_E_FULL: no room for them here, the sender keeps them
 * (deliver_held); ACP_E_BUSY: call again. Then all bytes from 0 to landing->size, in their order, in parts as they
 * come; then deliver_complete, or deliver_failed. */
int deliver_open(acp_lane *lane, struct landing *landing);
int deliver_fill(acp_lane *lane, struct landing *landing, uint64_t at, const void *data,
                 uint64_t size);
void deliver_complete(acp_lane *lane, struct landing *landing);
void deliver_left(acp_lane *lane, const struct landing *landing); /* `to` is dead: nothing is told */
void deliver_failed(acp_lane *lane, struct landing *landing, int status); /* its receiver hears of damage, or of a loss */
/* The bytes are in a block of the sender's heap (sender_heap.c), which the receiver takes over. */
void deliver_held(acp_lane *lane, struct landing *landing, acp_ga_t block);
/* A receive has taken a message that was kept: its bytes may go to its buffer. ACP_E_BUSY: none has yet. */
int deliver_taken(acp_lane *lane, struct landing *landing);

/* May deliver_taken succeed? A cheap test. */
static inline bool deliver_wanted(const struct landing *landing)
{
    return __atomic_load_n(&landing->entry->list, __ATOMIC_RELAXED) == AMONG_NONE;
}

#endif
