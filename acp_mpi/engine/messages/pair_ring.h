/* Pair rings: the short messages of one sender to one receiver, each in as many lines of the receiver's memory as it
 * is long (8 bytes: one). The receiver looks there before it enters its mailbox, which takes a lock and some six lines
 * more.
 *
 * A mailbox has places for RING_SENDERS rings of each class of messages (mailbox_class). The first of the ranks that share a place by number owns it, and takes
 * the block for its lines from the receiver's heap with its first message. The owner alone fills lines: a message
 * begins where the stamp of a line names this very position, and positions only grow. The first word of every line
 * is a stamp and never data, so nothing that a program sends looks like the next message. A receiver counts `taken`
 * on, and has the message if it was the one that did.
 *
 * Rings are used only while there is nothing else to look at: no message of the class is kept in the mailbox, no receive
 * of it is posted there, and no thread probes. A sender checks that before it fills lines and once more after it; a thread that
 * posts a receive, or probes, moves all messages in the rings to the mailbox, before that can be seen and once more
 * after it.
 *
 * - So of one sender at most one message is on its way past its first look, and either its second look sees the
 *   receive, and takes the message back, or the receive's second look sees the message. Where another message is
 *   before it, or another thread works at the ring, it cannot be taken back, and need not: that thread looks once more
 *   when it is done.
 * - All rules of the mailbox, for sleeping threads, for cancelled and for dropped messages, hold for these, too.
 * - A sender that goes to the mailbox brings first what is in its ring; so what is kept there was sent before what is
 *   in the ring, and a receiver that finds anything kept, or a receive posted, takes nothing from a ring.
 * - Bringing a message counts `taken` on in the same change as its entry, and the ring is busy: a process that is
 *   killed leaves the message here or there. Until that change has happened it may be taken back, and its lines are
 *   not free.
 * - `taken` has a check of itself, and a line that is not full has an older stamp of its own: what a wild pointer has
 *   written there is noticed, and calls end with ACP_E_DAMAGED. A message whose stamp has become an older one is missed
 *   by its sender, before a later one goes to the mailbox, or when a receiver that waits for long asks. Once a receive
 *   has been told, `taken` moves on past it (pair_ring_deliver.c). */
#ifndef ACP_PAIR_RING_H
#define ACP_PAIR_RING_H

#include "core/state/messages.h"

struct heap;
struct peer;

#define RING_SENDERS 32u
#define RING_LINES ((uint64_t)1024) /* of a ring, a power of two: 64 KiB */
#define RING_BUSY ((uint64_t)1 << 63) /* of `taken`: the section's holder moves messages to the mailbox */

struct ring_line {
    _Alignas(64) uint64_t stamp; /* position + 1, size (16 bits); of a line with more of a message: an older one */
    union {
        struct {
            uint64_t context, tag, note;
            unsigned char first[32];
        };
        unsigned char more[56];
    };
};

struct pair_ring {
    _Alignas(64) uint64_t taken; /* lines so far, with their check (pair_ring_sealed), | RING_BUSY */
    uint64_t copying; /* position + 1 of a message that is taken, but not copied yet: its lines are not free */
    uint64_t owner;   /* rank + 1 of the sender that fills it; 0: none */
    uint64_t lines;   /* offset in the heap; 0: none yet */
    uint64_t block;   /* the block of the lines; 0: none yet */
};

struct pair_rings {
    _Alignas(64) uint64_t owned; /* rings with lines, a bit each */
    struct pair_ring rings[RING_SENDERS];
};

static inline uint64_t pair_ring_sealed(uint64_t taken)
{
    return taken | (taken * 0x9e3779b97f4a7c15ull >> 49) << 48;
}

static inline bool pair_ring_unseal(uint64_t word, uint64_t *taken)
{
    *taken = word & (((uint64_t)1 << 48) - 1);
    return (word & ~RING_BUSY) == pair_ring_sealed(*taken);
}

/* Position + 1 of a message that is taken, and copied, or 0. It is one of the last before `taken`; else a wild pointer
 * has written there. */
static inline uint64_t pair_ring_copying(const struct pair_ring *ring, uint64_t taken)
{
    uint64_t copying = __atomic_load_n(&ring->copying, __ATOMIC_ACQUIRE);
    return taken - (copying - 1) <= RING_LINES ? copying : 0;
}

/* No owner fits, too: it was released. */
static inline bool pair_ring_owner_fits(const struct pair_ring *ring, uint32_t place)
{
    uint64_t owner = __atomic_load_n(&ring->owner, __ATOMIC_RELAXED);
    return !owner || (owner <= UINT32_MAX && (owner - 1) % RING_SENDERS == place);
}

/* Lines of a message. */
static inline uint64_t pair_ring_count(uint64_t size)
{
    return size <= 32 ? 1 : 1 + (size - 32 + 55) / 56;
}

static inline uint64_t pair_ring_owned(const struct pair_rings *all) /* whatever is written there, no others */
{
    return __atomic_load_n(&all->owned, __ATOMIC_SEQ_CST) & (((uint64_t)1 << RING_SENDERS) - 1);
}

enum ring_state { RING_EMPTY, RING_FULL, RING_DAMAGED };

/* True: it is in the ring. A ring has one sender at a time. Messages of users: the thread with the interpreter lock, by the
 * lane of that; of collectives: false while another thread sends one. */
bool pair_ring_put(acp_lane *lane, struct peer *to, const acp_envelope *m, const void *data);
struct ring_line *pair_ring_lines(const struct heap *h, const struct pair_ring *ring); /* NULL: there are none */
/* Does a message begin there? As long as it is not taken it stays. */
enum ring_state pair_ring_state(const struct ring_line *lines, uint64_t at, uint64_t *size);
void pair_ring_envelope(const struct pair_ring *ring, const struct ring_line *line, uint64_t size,
                        acp_envelope *envelope);
void pair_ring_copy(const struct ring_line *lines, uint64_t at, void *data, uint64_t size);
/* A message may fit, or a receiver must look into its mailbox for another reason. */
bool pair_ring_stirs(acp_engine *e, const acp_envelope *want);
bool pair_ring_any(const struct heap *h, enum mail_class class); /* is there anything to clear? */
/* This process has sent some that are still in its ring there. */
bool pair_ring_before(const acp_engine *e, const struct peer *to, enum mail_class class);
/* A message that this process has sent there is gone, and nobody has taken it. */
bool pair_ring_lacks(const acp_engine *e, const struct peer *to, enum mail_class class);

#endif
