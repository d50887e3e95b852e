/* Eager slots: a short message of a collective in one line of its receiver's memory, where the receiver looks before
 * it enters its mailbox, which takes several lines and a lock. Only a receiver that is awake looks there: before it
 * sleeps it closes the slots, and has their messages moved to the mailbox, so that all rules of the mailbox hold for
 * these, too.
 *
 * A slot is claimed, filled, and full; its reader claims it again. A sender that finds it taken, or closed, goes to
 * the mailbox, and counts that in the slot, so that the receiver knows where the message is. A claim of a dead process
 * stays: others with that slot go to the mailbox then. */
#ifndef ACP_EAGER_SLOT_H
#define ACP_EAGER_SLOT_H

#include "core/state/messages.h"

struct peer;

#define EAGER_MOST 32u  /* bytes of a message */

/* Values that a wild pointer hardly writes. An empty slot has no context, or has lost its message. */
enum { EAGER_EMPTY = 0, EAGER_CLAIMED = 0x6c31, EAGER_FULL = 0x936a, EAGER_STATES = 1 << 16 };

#define EAGER_TURN ((uint64_t)1 << 16) /* of the state: one that has gone to the mailbox instead; 16 bits of it */
#define EAGER_CLAIM ((uint64_t)1 << 32) /* how often it was claimed */

struct eager_slot {
    _Alignas(64) uint64_t state;
    uint64_t context, note;
    uint32_t source, size; /* the size in 8 bits, then a check of context, source and note */
    unsigned char data[EAGER_MOST];
};

static inline uint32_t eager_slot_of(uint64_t context, uint32_t source)
{
    return (source * EAGER_EACH + (uint32_t)context % EAGER_EACH) % EAGER_SLOTS;
}

struct eager {
    _Alignas(64) uint64_t closed; /* threads that have closed them, and may sleep */
    struct eager_slot slots[EAGER_SLOTS];
};

bool eager_slot_put(acp_engine *e, struct peer *to, const acp_envelope *m, const void *data);
void eager_slot_divert(acp_engine *e, struct peer *to, uint64_t context);
int eager_slot_recall(acp_lane *lane, struct peer *to, uint64_t context);

/* Slots of this process: */
bool eager_slot_has(acp_engine *e, uint64_t context, uint32_t source); /* is the message there? */
/* Have some of that sender gone to the mailbox that have not been found there? One `is`, or none is there. */
bool eager_slot_diverted(acp_engine *e, uint64_t context, uint32_t source);
void eager_slot_found(acp_engine *e, uint64_t context, uint32_t source, bool is);
/* The message is taken; `m`, with its context, its source and the size of the buffer, becomes its envelope. */
bool eager_slot_take(acp_engine *e, acp_envelope *m, void *buffer);
/* A message of that collective from that rank, or, if its slot does not tell, of any, may have been written over; then
 * the slot is empty. In the section of the mailbox. */
bool eager_slot_lacks(acp_engine *e, uint64_t context, uint32_t source);
void eager_slot_purge(acp_engine *e); /* drops messages of finished contexts, which no step will take */
/* No slot is filled from now on; then their messages are moved to the mailbox (`moved`: some were); ACP_E_BUSY: not all
 * yet. */
void eager_slot_close(acp_engine *e);
int eager_slot_flush(acp_lane *lane, bool *moved);
void eager_slot_open(acp_engine *e);

#endif
