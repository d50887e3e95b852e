/* Short messages by pair ring: put by the sender, taken from there by the receiver. */
#include "messages/pair_ring.h"
#include "base/linux.h"
#include "base/stream_copy.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"

#include <string.h>

#define STREAMED 2048u /* bytes; longer messages are written past the caches */
#define LOOKS 1000u /* for room, at a receiver that takes nothing: it copies 16 KiB meanwhile */
#define AGAIN 256u /* sends without a ring before memory for one is requested again */

static_assert(sizeof(struct ring_line) == 64, "one cache line");
static_assert(RING_SENDERS < 64, "a bit of a word each");
static_assert(ACP_SHORT_MOST < 65536, "its size is in the stamp");
static_assert(1 + (ACP_SHORT_MOST + 23) / 56 <= RING_LINES / 2, "one fits while another is taken");

static struct pair_rings *rings_of(acp_engine *e, struct peer *p, enum mail_class class)
{
    struct heap *h = mailbox_heap(e, p);
    return h ? &mailbox_of(h)->rings[class] : NULL;
}

/* No thread sleeps, no receive waits: the next receive looks into the rings. */
static bool is_quiet(const struct mailbox *box, enum mail_class class)
{
    return !(__atomic_load_n(&box->posted[class], __ATOMIC_SEQ_CST) | __atomic_load_n(&box->probing, __ATOMIC_SEQ_CST));
}

static bool keeps_none(const struct mailbox *box, enum mail_class class)
{
    return !__atomic_load_n(&box->kept[class], __ATOMIC_ACQUIRE);
}

/* No message precedes those in a ring: none that its sender sent earlier; and no receive that was posted earlier,
 * which gets it if its sender has not seen that in time. */
static bool is_first(const struct mailbox *box, enum mail_class class)
{
    return !__atomic_load_n(&box->posted[class], __ATOMIC_ACQUIRE) && keeps_none(box, class);
}

/* Entries are left to move it to the mailbox, even if the heap is full. */
static bool has_entries(const struct mailbox *box)
{
    return __atomic_load_n(&box->free, __ATOMIC_RELAXED) || __atomic_load_n(&box->spare, __ATOMIC_RELAXED);
}

struct ring_line *pair_ring_lines(const struct heap *h, const struct pair_ring *ring)
{
    uint64_t at = __atomic_load_n(&ring->lines, __ATOMIC_ACQUIRE), bytes = RING_LINES * sizeof(struct ring_line);
    bool good = at % sizeof(struct ring_line) == 0 && at > h->first && bytes <= h->span && at <= h->span - bytes;
    return good ? (struct ring_line *)(void *)(h->base + at) : NULL;
}

enum ring_state pair_ring_state(const struct ring_line *lines, uint64_t at, uint64_t *size)
{
    uint64_t stamp = __atomic_load_n(&lines[at % RING_LINES].stamp, __ATOMIC_SEQ_CST), is = stamp >> 16;
    *size = stamp & 0xffff;
    if (is == at + 1)
        return *size <= ACP_SHORT_MOST ? RING_FULL : RING_DAMAGED;
    return !stamp || (is <= at && (at + 1 - is) % RING_LINES == 0) ? RING_EMPTY : RING_DAMAGED;
}

/* The lines of the owner's ring, on which no older stamp stands. Whatever is killed here leaves the block to
 * pair_ring_deliver_release. */
static int make_lines(acp_lane *lane, struct heap *h, struct pair_ring *ring)
{
    uint64_t bytes = RING_LINES * sizeof(struct ring_line);
    int rc = ring->block ? ACP_OK : heap_take(lane, h, bytes + MAIL_LINE, &ring->block, 0);
    if (rc != ACP_OK)
        return rc;
    uint64_t at = mailbox_slab_first(ring->block);
    if (ring->block >= h->span || at > h->span - bytes)
        return ACP_E_DAMAGED;
    transaction_fault_point();
    for (uint64_t i = 0; i < RING_LINES; i++)
        ((struct ring_line *)(void *)(h->base + at))[i].stamp = 0;
    __atomic_store_n(&ring->lines, at, __ATOMIC_RELEASE);
    return ACP_OK;
}

/* The ring for messages of this process there, if it gets one. */
static struct pair_ring *find_ring(acp_lane *lane, struct peer *to, enum mail_class class)
{
    acp_engine *e = lane->engine;
    struct ring_sender *s = &to->mail.rings[class];
    struct pair_rings *all = to != e->job.own && (!s->pause || !--s->pause) ? rings_of(e, to, class) : NULL;
    if (!all)
        return NULL;
    struct heap *h = atomic_load_explicit(&to->memory.heap, memory_order_relaxed);
    uint32_t i = e->rank % RING_SENDERS;
    struct pair_ring *ring = &all->rings[i];
    uint64_t owner = 0, taken;
    bool mine = __atomic_compare_exchange_n(&ring->owner, &owner, (uint64_t)e->rank + 1, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED) ||
                owner == (uint64_t)e->rank + 1;
    int rc = mine ? make_lines(lane, h, ring) : ACP_OK;
    if (rc != ACP_OK) {
        s->pause = rc == ACP_E_FULL ? AGAIN : 0;
        return NULL;
    }
    mine = mine && pair_ring_unseal(__atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE), &taken);
    s->lines = mine ? pair_ring_lines(h, ring) : NULL;
    s->ring = s->lines ? ring : NULL;
    if (s->ring) {
        s->seen = taken; /* the ring is empty, or new */
        atomic_store_explicit(&s->filled, taken, memory_order_relaxed);
        atomic_store_explicit(&s->sent, taken, memory_order_relaxed);
        __atomic_fetch_or(&all->owned, (uint64_t)1 << i, __ATOMIC_SEQ_CST);
    }
    atomic_store_explicit(&s->era, e->mail.era + 1, memory_order_release); /* now other threads may look */
    return s->ring;
}

static struct pair_ring *ring_at(acp_lane *lane, struct peer *to, enum mail_class class)
{
    const struct ring_sender *s = &to->mail.rings[class];
    if (likely(atomic_load_explicit(&s->era, memory_order_relaxed) == lane->engine->mail.era + 1))
        return s->ring;
    return find_ring(lane, to, class);
}

/* The lines before that position are free. False: the ring is busy: its section's holder may die, and then the change
 * is taken back. */
static bool look_for_room(struct ring_sender *s)
{
    uint64_t word = __atomic_load_n(&s->ring->taken, __ATOMIC_ACQUIRE), taken;
    if (word & RING_BUSY || !pair_ring_unseal(word, &taken))
        return false;
    uint64_t copying = pair_ring_copying(s->ring, taken);
    s->seen = copying ? copying - 1 : taken;
    return true;
}

/* A receiver that is awake soon takes more; then there is room for some at once, lest sender and receiver fetch
 * `taken` from each other for each message. */
static bool has_room(const acp_lane *lane, struct peer *to, enum mail_class class, uint64_t sent, uint64_t count)
{
    struct ring_sender *s = &to->mail.rings[class];
    const struct mailbox *box = mailbox_of(atomic_load_explicit(&to->memory.heap, memory_order_relaxed));
    if (likely(sent + count - s->seen <= RING_LINES))
        return true;
    if (!look_for_room(s))
        return false;
    bool waits = !lane->engine->progress.crowded && !to->shm.control->crowded;
    uint64_t wanted = count < RING_LINES / 4 ? RING_LINES / 4 : count;
    for (uint32_t i = 0; waits && i < LOOKS && sent + wanted - s->seen > RING_LINES && is_quiet(box, class); i++) {
        uint64_t before = s->seen;
        linux_cpu_relax();
        if (!look_for_room(s))
            return false;
        if (s->seen != before)
            i = 0;
    }
    return sent + count - s->seen <= RING_LINES;
}

/* A stamp of an earlier lap: no message begins in that line. */
static uint64_t older_stamp(uint64_t at)
{
    return at < RING_LINES ? 0 : (at + 1 - RING_LINES) << 16;
}

static void lines_fill(struct ring_line *lines, const acp_envelope *m, const unsigned char *data, uint64_t at)
{
    struct ring_line *line = &lines[at % RING_LINES];
    uint64_t size = m->size, first = size < sizeof line->first ? size : sizeof line->first, left = size - first;
    __atomic_store_n(&line->context, m->context, __ATOMIC_RELAXED);
    __atomic_store_n(&line->tag, (uint64_t)m->tag, __ATOMIC_RELAXED);
    __atomic_store_n(&line->note, m->note, __ATOMIC_RELAXED);
    if (first)
        memcpy(line->first, data, first);
    data += first;
    uint64_t next = at;
    if (size >= STREAMED) {
        for (; left >= sizeof line->more; left -= sizeof line->more, data += sizeof line->more, next++)
            stream_copy_line(&lines[(next + 1) % RING_LINES], older_stamp(next + 1), data);
        stream_copy_end();
    }
    for (; left >= sizeof line->more; left -= sizeof line->more, data += sizeof line->more)
        memcpy(lines[++next % RING_LINES].more, data, sizeof line->more);
    if (left)
        memcpy(lines[++next % RING_LINES].more, data, left);
    transaction_fault_point();
    __atomic_store_n(&line->stamp, (at + 1) << 16 | size, __ATOMIC_SEQ_CST);
}

void pair_ring_copy(const struct ring_line *lines, uint64_t at, void *data, uint64_t size)
{
    const struct ring_line *line = &lines[at % RING_LINES];
    unsigned char *to = data;
    uint64_t first = size < sizeof line->first ? size : sizeof line->first, left = size - first;
    if (first)
        memcpy(to, line->first, first);
    to += first;
    for (; left >= sizeof line->more; left -= sizeof line->more, to += sizeof line->more)
        memcpy(to, lines[++at % RING_LINES].more, sizeof line->more);
    if (left)
        memcpy(to, lines[++at % RING_LINES].more, left);
}

/* Counts `taken` on over the message there. False: another thread has. */
static bool take(struct pair_ring *ring, uint64_t at, uint64_t size)
{
    uint64_t was = pair_ring_sealed(at);
    return __atomic_compare_exchange_n(&ring->taken, &was, pair_ring_sealed(at + pair_ring_count(size)), false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static bool ring_put(acp_lane *lane, struct peer *to, enum mail_class class, const acp_envelope *m, const void *data)
{
    struct pair_ring *ring = ring_at(lane, to, class);
    struct heap *h = ring ? atomic_load_explicit(&to->memory.heap, memory_order_relaxed) : NULL;
    const struct mailbox *box = h ? mailbox_of(h) : NULL;
    if (!box || !is_quiet(box, class) || !keeps_none(box, class) || !has_entries(box))
        return false;
    struct ring_sender *s = &to->mail.rings[class];
    uint64_t at = atomic_load_explicit(&s->sent, memory_order_relaxed), count = pair_ring_count(m->size);
    if (!has_room(lane, to, class, at, count))
        return false;
    atomic_store_explicit(&s->sent, at + count, memory_order_relaxed);
    transaction_fault_point();
    lines_fill(s->lines, m, data, at);
    atomic_store_explicit(&s->filled, at + count, memory_order_release);
    transaction_fault_point();
    if (likely(is_quiet(box, class)))
        return true;
    /* A thread that has posted a receive meanwhile may have looked before this was there. If another is before it,
     * then that was seen, and this is brought with it. */
    return !take(ring, at, m->size);
}

bool pair_ring_put(acp_lane *lane, struct peer *to, const acp_envelope *m, const void *data)
{
    enum mail_class class = mailbox_class(m->context);
    if (class == MAIL_USERS)
        return lane->index == LANE_CALLER && ring_put(lane, to, class, m, data);
    _Atomic bool *busy = &to->mail.rings[class].busy;
    if (lane->index == LANE_LEADER || atomic_exchange_explicit(busy, true, memory_order_acquire))
        return false;
    bool is = ring_put(lane, to, class, m, data);
    atomic_store_explicit(busy, false, memory_order_release);
    return is;
}

bool pair_ring_before(const acp_engine *e, const struct peer *to, enum mail_class class)
{
    const struct ring_sender *s = &to->mail.rings[class];
    return atomic_load_explicit(&s->era, memory_order_acquire) == e->mail.era + 1 && s->ring &&
           __atomic_load_n(&s->ring->taken, __ATOMIC_ACQUIRE) !=
               pair_ring_sealed(atomic_load_explicit(&s->sent, memory_order_relaxed));
}

/* Both the stamp and `taken` have been written over, or one of them: a message that is taken, or taken back, counts. */
bool pair_ring_lacks(const acp_engine *e, const struct peer *to, enum mail_class class)
{
    const struct ring_sender *s = &to->mail.rings[class];
    if (atomic_load_explicit(&s->era, memory_order_acquire) != e->mail.era + 1 || !s->ring)
        return false;
    uint64_t filled = atomic_load_explicit(&s->filled, memory_order_acquire), at, size;
    uint64_t word = __atomic_load_n(&s->ring->taken, __ATOMIC_ACQUIRE);
    if (!pair_ring_owner_fits(s->ring, e->rank % RING_SENDERS))
        return true;
    if (__atomic_load_n(&s->ring->owner, __ATOMIC_RELAXED) != (uint64_t)e->rank + 1)
        return false;
    const struct heap *h = atomic_load_explicit(&to->memory.heap, memory_order_acquire);
    if (!pair_ring_unseal(word, &at) || pair_ring_lines(h, s->ring) != s->lines)
        return true;
    if (word & RING_BUSY)
        return false;
    if (at > atomic_load_explicit(&s->sent, memory_order_acquire))
        return true;
    return at < filled && pair_ring_state(s->lines, at, &size) != RING_FULL &&
           __atomic_load_n(&s->ring->taken, __ATOMIC_ACQUIRE) == word;
}

void pair_ring_envelope(const struct pair_ring *ring, const struct ring_line *line, uint64_t size,
                        acp_envelope *envelope)
{
    *envelope = (acp_envelope){
        .context = __atomic_load_n(&line->context, __ATOMIC_RELAXED),
        .source = (int64_t)__atomic_load_n(&ring->owner, __ATOMIC_RELAXED) - 1,
        .tag = (int64_t)__atomic_load_n(&line->tag, __ATOMIC_RELAXED),
        .note = __atomic_load_n(&line->note, __ATOMIC_RELAXED), .size = size};
}

/* The first message of a ring: the copy is valid if the caller then takes that message. */
static bool read_first(const struct heap *h, struct pair_ring *ring, acp_short *message)
{
    const struct ring_line *lines = pair_ring_lines(h, ring);
    uint64_t word = __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE), at, size;
    if (!lines || word & RING_BUSY || !pair_ring_unseal(word, &at) || pair_ring_state(lines, at, &size) != RING_FULL)
        return false;
    pair_ring_envelope(ring, &lines[at % RING_LINES], size, &message->envelope);
    message->at = at;
    message->ring = ring;
    message->lines = lines;
    return true;
}

static struct pair_ring *ring_of_source(struct pair_rings *all, int64_t source)
{
    struct pair_ring *ring = &all->rings[(uint64_t)source % RING_SENDERS];
    return __atomic_load_n(&ring->owner, __ATOMIC_RELAXED) == (uint64_t)source + 1 ? ring : NULL;
}

static bool fits(const acp_short *message, const acp_envelope *want)
{
    const acp_envelope *m = &message->envelope;
    return m->context == want->context && (want->tag == ACP_ANY || want->tag == m->tag);
}

static bool look_at_some(acp_engine *e, const struct heap *h, uint64_t which, const acp_envelope *want,
                         acp_short *message)
{
    struct pair_rings *all = &mailbox_of(h)->rings[mailbox_class(want->context)];
    for (; which; which &= which - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(which);
        if (read_first(h, &all->rings[i], message) && fits(message, want)) {
            atomic_store_explicit(&e->mail.ring_turn, i + 1, memory_order_relaxed);
            return true;
        }
    }
    return false;
}

/* From any source: in turn, lest a sender without pause keep the others out. */
static bool look_at_all(acp_engine *e, const struct heap *h, const acp_envelope *want, acp_short *message)
{
    uint32_t from = atomic_load_explicit(&e->mail.ring_turn, memory_order_relaxed) % RING_SENDERS;
    uint64_t owned = pair_ring_owned(&mailbox_of(h)->rings[mailbox_class(want->context)]), behind = owned >> from << from;
    return look_at_some(e, h, behind, want, message) || look_at_some(e, h, owned ^ behind, want, message);
}

bool acp_short_look(acp_engine *e, const acp_envelope *want, acp_short *message)
{
    struct heap *h = atomic_load_explicit(&e->job.own->memory.heap, memory_order_acquire);
    if (unlikely(!h))
        return false;
    enum mail_class class = mailbox_class(want->context);
    if (want->source == ACP_ANY)
        return look_at_all(e, h, want, message) && is_first(mailbox_of(h), class);
    struct pair_ring *ring = ring_of_source(&mailbox_of(h)->rings[class], want->source);
    return ring && read_first(h, ring, message) && fits(message, want) && is_first(mailbox_of(h), class);
}

bool acp_short_take(const acp_short *message, void *data)
{
    struct pair_ring *ring = message->ring;
    uint64_t size = message->envelope.size;
    __atomic_store_n(&ring->copying, message->at + 1, __ATOMIC_RELAXED);
    bool mine = take(ring, message->at, size);
    if (likely(mine))
        pair_ring_copy(message->lines, message->at, data, size);
    __atomic_store_n(&ring->copying, 0, __ATOMIC_RELEASE);
    return mine;
}

/* True for a message, or for damage. */
static bool is_there(const struct heap *h, const struct pair_ring *ring)
{
    const struct ring_line *lines = pair_ring_lines(h, ring);
    uint64_t word = __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE), at, size;
    return !lines || word & RING_BUSY || !pair_ring_unseal(word, &at) ||
           pair_ring_state(lines, at, &size) != RING_EMPTY;
}

bool pair_ring_any(const struct heap *h, enum mail_class class)
{
    const struct pair_rings *all = &mailbox_of(h)->rings[class];
    for (uint64_t owned = pair_ring_owned(all); owned; owned &= owned - 1)
        if (is_there(h, &all->rings[__builtin_ctzll(owned)]))
            return true;
    return false;
}

bool pair_ring_stirs(acp_engine *e, const acp_envelope *want)
{
    struct heap *h = atomic_load_explicit(&e->job.own->memory.heap, memory_order_acquire);
    enum mail_class class = mailbox_class(want->context);
    if (!h || !keeps_none(mailbox_of(h), class) || !is_quiet(mailbox_of(h), class))
        return true;
    if (want->source == ACP_ANY)
        return pair_ring_any(h, class);
    const struct pair_ring *ring = ring_of_source(&mailbox_of(h)->rings[class], want->source);
    return ring && is_there(h, ring);
}
