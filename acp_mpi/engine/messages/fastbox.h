/* Fast boxes: short messages of one sender, each in as many lines of its receiver's memory as it is long (8 bytes:
 * one), where that looks before it asks its mailbox, which takes a lock and some six lines more.
 *
 * A mailbox has a box for each of FAST_BOXES senders, which the first of them to come keeps. Its sender alone
 * fills it: a slot is full when its stamp is the number of the message that is due there. Who takes counts
 * `taken` on, and has a message if it was the one that did.
 *
 * Boxes are used only while there is nothing else to look at: no message is kept in the mailbox, no receive is
 * posted there, and nobody probes. A sender looks at that before it fills a slot and once more after it; who posts a
 * receive, or probes, has what is in the boxes brought to the mailbox, before that can be seen and once more after it.
 *
 * - So of one sender at most one message is on its way past its first look, and either its second look sees the
 *   receive, and takes the message back, or the receive's second look sees the message. Where another message is
 *   before it, or somebody works at the box, it cannot be taken back, and need not: they look once more when they are
 *   done.
 * - All that is said of the mailbox, of who sleeps, of what is cancelled or dropped, holds for these messages, too.
 * - A sender that goes to the mailbox brings first what is in its box; so what is kept there was sent before what is in
 *   the box, and who finds anything kept, or a receive posted, takes nothing from a box.
 * - What is brought counts `taken` on in the same change as its letter, and the box is busy: whoever is killed leaves it
 *   here or there. Until that change has happened it may be taken back, and its slot is not free. */
#ifndef ACP_FASTBOX_H
#define ACP_FASTBOX_H

#include "core/messages.h"

struct heap;
struct peer;

#define FAST_BOXES 32u
#define FAST_SLOTS 8u /* a power of two */
#define FAST_BUSY ((uint64_t)1 << 63) /* of `taken`: what is here is being brought to the mailbox, in its section */

/* All are words, for who takes may read what its sender overwrites: it is told so by `taken`. */
struct fast_slot {
    _Alignas(64) uint64_t stamp; /* number of the message + 1, size */
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

/* Is the message of that number there? As long as it is not taken it stays; its size, whatever is written there. */
static inline bool fast_full(const struct fastbox *b, uint64_t number, uint64_t *size)
{
    uint64_t stamp = __atomic_load_n(&b->slots[number % FAST_SLOTS].stamp, __ATOMIC_SEQ_CST);
    *size = (stamp & 0xff) < ACP_FAST_MOST ? stamp & 0xff : ACP_FAST_MOST;
    return stamp >> 8 == number + 1;
}

static inline uint64_t fast_words(uint64_t size)
{
    return (size + 7) / 8;
}

/* True: it is there. By the lane of whoever holds the interpreter lock, for a box has one sender. */
bool fast_put(acp_lane *lane, struct peer *to, const acp_envelope *m, const void *data);
void fast_read(const struct fastbox *b, uint64_t number, uint64_t size, acp_fast *message);
/* There is one, or something else for which a receiver is to look into its mailbox. */
bool fast_stirs(acp_engine *e, const acp_envelope *want);
bool fast_any(const struct heap *h); /* is there anything to clear? */
/* This process has sent some that are still in its box there. */
bool fast_before(const acp_engine *e, const struct peer *to);

#endif
