/* The mailbox of a rank: unexpected messages, which have come without a receive, and posted receives without a
 * message. The process that brings a message matches it here: a sender that reaches the heap by load and store itself,
 * else the receiver's progress thread.
 *
 * It lies in the head of the heap; its entries (struct mail_entry) lie in slabs of the heap. Lists are changed in its
 * section. The bytes of a long message are written outside of it: the entry tells where they go, which process writes
 * them and how far. One word of the entry tells that it is done.
 *
 * Offsets count from the beginning of the heap, 0 names nothing; values read from it are checked. */
#ifndef ACP_MAILBOX_H
#define ACP_MAILBOX_H

#include "core/state/peer.h"
#include "memory/heap.h"
#include "messages/pair_ring.h"
#include "peers/peer.h"

#include <assert.h>

struct heap;
struct peer;

#define MAIL_INLINE ((uint64_t)256) /* most bytes of a message in its entry */
#define MAIL_BUCKETS 64u
#define MAIL_SPARES 16u
#define MAIL_WANTING 32u
#define MAIL_ROOM (((uint64_t)1 << 48) - 1)
#define MAIL_SHARED ((uint64_t)48 << 10) /* from here on a sender and a waiting receiver copy together */
#define MAIL_BOUND ((uint64_t)64 << 20) /* unless less is wanted, or the heap is small */

/* Values that a wild pointer hardly writes; no flipped bit makes one of another. */
enum entry_state {
    ENTRY_FREE = 0,
    ENTRY_POSTED = 0x6c657403,  /* a receive; nothing has come */
    ENTRY_FILLING = 0x6c657405, /* a message with bytes under way */
    ENTRY_DONE = 0x6c657406,
    ENTRY_LOST = 0x6c657409,    /* its bytes will never come */
    ENTRY_REFUSED = 0x6c65740a, /* a receive of another type than a message; it has that envelope */
    ENTRY_DAMAGED = 0x6c65740c, /* its sender has found damage here; as this counts whatever is none of these */
};

enum entry_place { /* where the bytes of a message are */
    PLACE_NONE = 0,
    PLACE_INLINE, /* in the entry */
    PLACE_BUFFER, /* in the buffer of the receive */
    PLACE_BLOCK,  /* in a block of this heap */
    PLACE_SHARED, /* the first `filled` in such a block, the rest in the buffer: both copy them there */
    PLACE_HELD,   /* in a block of its sender's heap, at the address `held` */
};

/* Counts and addresses as words that a wild pointer hardly writes: multiples of an odd number, from another one on. Any
 * other word stands for a number that is too large. */
#define MAIL_ONE 0x9e3779b97f4a7c15ull
#define MAIL_ZERO 0xd1342543de82ef95ull
#define MAIL_ONE_INVERSE 0xf1de83e19937733dull

#define MAIL_COST sizeof(struct mail_entry) /* bytes of an entry, towards the bound */
#define MAIL_NOWHERE UINT64_MAX /* context of a message whose envelope was written over: it has ended */

enum entry_attention { /* of the receiver */
    ATTENTION_NONE = 0,
    ATTENTION_WAITS,
    ATTENTION_SLEEPS, /* ring at its door */
    ATTENTION_DOZES,  /* ring its threads that do not lead */
};

enum entry_list {
    AMONG_NONE = 0, AMONG_RECEIVES, AMONG_WILD, AMONG_MESSAGES, AMONG_TAKEN /* by a probe */
};

struct mail_link {
    uint64_t next, previous;
};

/* A long message that its filler and its receiver copy together from one's memory to the other's, in parts that each
 * claims. */
struct mail_share { /* all sealed (mailbox_sealed) */
    uint64_t from;    /* where its bytes begin in the filler's process, and the filler's slot from bit 48 on */
    uint64_t claimed; /* bytes that are copied or being copied */
    uint64_t helpers; /* threads of the receiver that copy: the filler waits */
    uint64_t undone;  /* not 0: a part failed, all is to be copied again */
};

struct mail_entry {
    uint64_t state;
    uint64_t attention; /* of its receiver */
    uint64_t filled;    /* bytes that have come by the block (mailbox_sealed) */
    uint64_t place;
    uint64_t block;
    uint64_t held; /* of a posted receive: a check of what it wants (mailbox_want_sealed) */
    uint64_t filler; /* slot of the process that brings the bytes */

    uint64_t context, source, tag, size, note; /* of the message; the source is a rank */
    uint64_t sequence;                         /* in the order of arrival, or of posting */
    uint64_t want_source;                      /* of the receive */
    union {
        uint64_t want_tag;
        uint64_t sealed; /* of a kept message: a check of its context, source and tag (mailbox_envelope_sealed) */
    };

    uint64_t room; /* of the buffer, in bytes, with a check of both (mailbox_room_sealed) */
    union {
        uint64_t cost;      /* towards the bound, as long as it is kept */
        uint64_t want_note; /* of a receive */
    };
    uint64_t buffer, global; /* address of the buffer in its process, or in all */
    uint64_t list;                 /* the list that holds it */
    struct mail_link link;         /* links in that list */
    struct mail_link arrival;      /* of an unexpected message: links in the list of all */

    union {
        unsigned char data[MAIL_INLINE];
        struct mail_share share; /* of a longer message */
    };
};

static_assert(sizeof(struct mail_entry) == 192 + MAIL_INLINE, "seven cache lines");

struct mail_chain {
    uint64_t first, last;
};

/* Contexts that have ended here lately: messages of these are dropped on arrival. */
#define MAIL_LOTS 64u
#define MAIL_LOT 7u

struct mail_lot {
    uint64_t next; /* the place of the oldest, in all that have been here */
    uint64_t contexts[MAIL_LOT];
};

struct mailbox {
    struct section section;
    uint64_t bound;    /* of `bytes` */
    uint64_t bytes;    /* of unexpected messages: entries and blocks */
    uint64_t kept[MAIL_CLASSES], posted[MAIL_CLASSES]; /* how many there are */
    uint64_t sequence; /* of the next one */
    uint64_t free;     /* entries of slabs, chained by their links */
    uint64_t spare;    /* `entries`, likewise: entries for receives where the heap is full */
    uint64_t spares_kept; /* entries of `entries` that hold unexpected messages */
    uint64_t slabs;    /* chained by their first word */
    uint64_t probing;  /* threads of the owner that sleep until a message is kept */
    uint64_t wanting[MAIL_WANTING]; /* slot + 1 of senders that wait for credit */
    struct mail_chain arrivals, wild;
    struct mail_chain receives[MAIL_BUCKETS], messages[MAIL_BUCKETS];
    struct mail_lot ended[MAIL_LOTS];
    _Alignas(64) struct mail_entry entries[MAIL_SPARES];
    struct pair_rings rings[MAIL_CLASSES];
};

static_assert(sizeof(struct mailbox) <= HEAP_ROOT, "a mailbox lies in the root of its heap");

static inline enum mail_class mailbox_class(uint64_t context)
{
    return context >> 62 == ACP_CONTEXT_COLLECTIVE >> 62 ? MAIL_COLLECTIVES : MAIL_USERS;
}

static inline struct mailbox *mailbox_of(const struct heap *h)
{
    return (struct mailbox *)(void *)h->head->root;
}

static inline uint64_t mailbox_kept(const struct mailbox *box)
{
    return __atomic_load_n(&box->kept[MAIL_USERS], __ATOMIC_ACQUIRE) +
           __atomic_load_n(&box->kept[MAIL_COLLECTIVES], __ATOMIC_ACQUIRE);
}

static inline uint64_t mailbox_posted(const struct mailbox *box)
{
    return __atomic_load_n(&box->posted[MAIL_USERS], __ATOMIC_RELAXED) +
           __atomic_load_n(&box->posted[MAIL_COLLECTIVES], __ATOMIC_RELAXED);
}

/* A slab: entries behind its first word, each on lines of its own. */
#define MAIL_LINE ((uint64_t)64)
#define MAIL_SLAB ((uint64_t)16384)
#define MAIL_SLAB_ENTRIES ((MAIL_SLAB - 2 * MAIL_LINE) / sizeof(struct mail_entry))

static inline uint64_t mailbox_slab_first(uint64_t slab)
{
    return (slab + 8 + MAIL_LINE - 1) & ~(MAIL_LINE - 1);
}

/* The heap of a process of the node, with its mailbox; NULL: it is not in reach of load and store. */
struct heap *mailbox_heap(acp_engine *e, struct peer *p);

/* Load and store do not reach its mailbox: now, or once before. */
static inline bool mailbox_is_far(acp_engine *e, struct peer *p)
{
    if (unlikely(peer_attach(e, p) == RELATION_REMOTE)) {
        if (p->relation != RELATION_REMOTE) /* for now: messages must not overtake each other */
            atomic_store(&p->mail.far, true);
        return true;
    }
    if (unlikely(!atomic_load_explicit(&p->memory.heap, memory_order_relaxed)))
        mailbox_heap(e, p);
    return atomic_load_explicit(&p->mail.far, memory_order_relaxed) && !p->lost;
}
/* Nothing of that context is received here from now on. */
void mailbox_end_context(struct mailbox *box, uint64_t context);
bool mailbox_context_ended(const struct mailbox *box, uint64_t context);
/* Counts the messages whose bytes, more than fit an entry, this process brings to another's mailbox: from before its
 * entry tells so until it tells that they are there. */
void mailbox_fill_begin(acp_engine *e, const struct peer *to, uint64_t size);
void mailbox_fill_end(acp_engine *e, const struct peer *to, uint64_t size);
/* Of an entry whose bytes are under way. ACP_E_LOST: their filler has died; from now on this process registers for that.
 * ACP_E_DAMAGED: it brings no bytes to anybody, so that the entry is wrong. */
int mailbox_filler_check(acp_engine *e, const struct mail_entry *entry);

/* Fails with ACP_E_DAMAGED, and the rank in whose memory that is. */
int mailbox_damaged(acp_lane *lane, const struct peer *p, uint64_t size);

/* Entries and lists */
void mailbox_create(const struct heap *h, uint64_t bound); /* of a new heap; 0: the default bound */
uint64_t mailbox_bound(const struct heap *h, uint64_t bound); /* that it has then */
struct mail_entry *mailbox_entry(const struct heap *h, uint64_t at); /* NULL: none can be there */
uint64_t mailbox_entry_offset(const struct heap *h, const struct mail_entry *entry);
uint32_t mailbox_bucket(uint64_t context, uint64_t source, uint64_t tag);
/* Inside a change. ACP_E_FULL: the heap is full; ACP_E_BUSY: another holds it. `keeps`: for an unexpected message; half
 * of the mailbox's own entries are left to receives, for which senders wait that find no entry. */
int mailbox_entry_alloc(struct hold *hold, bool keeps, struct mail_entry **entry);
void mailbox_entry_free(struct hold *hold, struct mail_entry *entry);
void mailbox_link(struct hold *hold, struct mail_entry *entry, enum entry_list list);
void mailbox_unlink(struct hold *hold, struct mail_entry *entry);
bool mailbox_is_spare(const struct heap *h, uint64_t at); /* one of the mailbox's own */
/* For a receive of this process: a spare entry of the lane needs no section. */
int mailbox_entry_get(struct hold *hold, struct mail_entry **entry);
void mailbox_entry_put(acp_lane *lane, struct heap *h, struct mail_entry *entry);
bool mailbox_block_in(const struct heap *h, uint64_t at, uint64_t size); /* all of that is of the heap */

/* A way along a list, in which a dying process or a wild pointer may have left a circle. */
struct mailbox_walk {
    uint64_t steps, mark;
};

/* True: it has been at this entry before. Where it was at the last power of two is remembered. */
static inline bool mailbox_circles(struct mailbox_walk *w, uint64_t at)
{
    if (w->steps++ && at == w->mark)
        return true;
    if (!(w->steps & (w->steps - 1)))
        w->mark = at;
    return false;
}

static inline enum entry_state mailbox_entry_state(const struct mail_entry *entry)
{
    uint64_t is = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);
    return is >> 32 ? ENTRY_DAMAGED : (enum entry_state)is;
}

static inline uint64_t mailbox_sealed(uint64_t number)
{
    return MAIL_ZERO + number * MAIL_ONE;
}

static inline uint64_t mailbox_unsealed(uint64_t word)
{
    static_assert(MAIL_ONE * MAIL_ONE_INVERSE == 1, "so a number comes back");
    return (word - MAIL_ZERO) * MAIL_ONE_INVERSE;
}

/* Most bytes of the buffer of a receive, with a check: nobody writes where a wild pointer has put its address. */
static inline uint64_t mailbox_room_sealed(uint64_t room, uint64_t buffer, uint64_t global)
{
    room = room < MAIL_ROOM ? room : MAIL_ROOM;
    uint64_t mixed = (room ^ buffer * 0x9e3779b97f4a7c15ull ^ global * 0xbf58476d1ce4e5b9ull) * 0x94d049bb133111ebull;
    return room | mixed >> 48 << 48;
}

static inline uint64_t mailbox_envelope_sealed(uint64_t context, uint64_t source, uint64_t tag)
{
    return ((context ^ source * 0x9e3779b97f4a7c15ull ^ tag * 0xbf58476d1ce4e5b9ull) + MAIL_ZERO) * MAIL_ONE;
}

static inline uint64_t mailbox_want_sealed(const struct mail_entry *receive)
{
    return mailbox_envelope_sealed(receive->context, receive->want_source, receive->want_tag);
}

static inline void mailbox_set_attention(struct mail_entry *entry, enum entry_attention attention)
{
    __atomic_store_n(&entry->attention, attention, __ATOMIC_RELAXED);
}

/* State of an arrival. Between match_arrive and its end only its filler changes the entry. */
struct landing {
    struct peer *to; /* the owner of the mailbox */
    struct heap *heap;
    struct mail_entry *entry;
    bool open;    /* its bytes are still to be brought: deliver_open, deliver_fill ..., then an end */
    bool held;    /* past the bound: they stay with the sender. No deliver_open, but deliver_held */
    bool matched; /* the buffer of the receive is known */
    bool looks;   /* ACP_E_FULL without registration: no event tells that there is room */
    uint64_t before; /* ACP_E_FULL: no receive of a lower sequence fits it */
    uint8_t how;  /* of deliver.c */
    bool shares;  /* shared_copy.c: the receiver may help */
    bool late;    /* its context has ended: not open, it is dropped already, else its receiver drops it */
    const unsigned char *whole; /* all bytes, until they are there; NULL: they come in parts */
    unsigned char *base; /* where they go, in this process; NULL: not by load and store */
    uint64_t buffer, global; /* of the receive, as they were checked; 0: none */
    uint64_t size;       /* bytes of the message that there is room for */
    uint64_t *word, value; /* of the mailbox: set with the same change; NULL: none */
};

#endif
