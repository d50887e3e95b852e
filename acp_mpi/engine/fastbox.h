/* Fast boxes: short messages of one sender, each in as many lines of its receiver's memory as it is long (8 bytes:
 * one), where that looks before it asks its mailbox, which takes a lock and some six lines more.
 *
 * A mailbox has a box for each of FAST_BOXES senders, which the first of them to come keeps. Its sender alone
 * fills it: a slot is full when its stamp is the number of the message that is due there. Who takes counts
 * `taken` on, and has a message if it was the one that did.
 *
 * Boxes are used only while there is nothing else to look at: no message is kept in the mailbox, no receive is
 * posted there, and nobody probes. Who posts a receive, or probes, first has what is in the boxes brought to the
 * mailbox, and once more after that; a sender looks at the mailbox after it has filled a slot. So one of the two sees the
 * other, and all that is said of the mailbox, of who sleeps, of what is cancelled or dropped, holds for these
 * messages, too. A sender that goes to the mailbox brings first what is in its box. */
#ifndef ACP_FASTBOX_H
#define ACP_FASTBOX_H

#include "messages.h"

#include <stdbool.h>
#include <stdint.h>

#define FAST_BOXES 32u
#define FAST_SLOTS 8u /* a power of two */
#define FAST_BUSY ((uint64_t)1 << 63) /* of `taken`: what is here is being brought to the mailbox, in its section */

/* All are words, for who takes may read what its sender overwrites: it is told so by `taken`. */
struct fast_slot {
    _Alignas(64) uint64_t stamp; /* number of the message, size */
    uint64_t context, tag, note;
    uint64_t data[ACP_FAST_MOST / 8];
};

struct fastbox {
    _Alignas(64) uint64_t taken; /* so many, | FAST_BUSY */
    uint64_t owner;              /* rank + 1 of who fills it; 0: nobody */
    struct fast_slot slots[FAST_SLOTS];
};

struct fastboxes {
    _Alignas(64) uint64_t owned; /* those that have an owner, a bit each */
    struct fastbox boxes[FAST_BOXES];
};

static inline uint64_t fast_owned(const struct fastboxes *all) /* whatever is written there, no others */
{
    return __atomic_load_n(&all->owned, __ATOMIC_SEQ_CST) & (((uint64_t)1 << FAST_BOXES) - 1);
}

/* A sender's view of its box. */
struct fast_sender {
    struct fastbox *box; /* NULL: another has it */
    uint32_t era;        /* of the mailbox, + 1 */
    _Atomic uint64_t sent;
    uint64_t taken; /* when that was looked at last */
};

struct hold;
struct heap;
struct peer;

/* fastbox.c. True: it is there. By the lane of whoever holds the interpreter lock, for a box has one sender. */
bool fast_put(acp_lane *lane, struct peer *to, const acp_envelope *m, const void *data);
/* Is one there, or something else for which a receiver is to look? */
bool fast_here(acp_engine *e, const acp_envelope *want);

/* fast_bring.c: to the mailbox, in the order in which they were sent. In the section of one's own mailbox all, of
 * another's mailbox one's own. ACP_E_FULL, ACP_E_BUSY: some are still in their boxes. */
int fast_clear(struct hold *hold);
int fast_bring(acp_lane *lane, struct peer *to);
bool fast_any(const struct heap *h); /* is there anything to clear? */
void fast_release(struct hold *hold); /* the boxes of the dead, which are clear */
/* This process has sent some that are still in its box there. */
bool fast_before(const acp_engine *e, const struct peer *to);

#endif
