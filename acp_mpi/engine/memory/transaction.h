/* A section: a lock in shared memory, and what is changed under it. A change happens as a whole or not at all, also
 * when the process that makes it is killed at any instruction: the next one that enters finishes it or takes it back.
 *
 * enter ... begin, set, take, drop, shift, move ..., commit ... leave
 *
 * Old words go to an undo journal before new ones are stored, and one store decides. A killed process has done a
 * prefix of its stores in program order, and the next holder of the lock sees them: it is enough that the compiler
 * keeps their order: `transaction_store`.
 *
 * Sections are entered in this order: of a container, of the heap's sweeper, of the heap. A change may have to finish
 * the one before, for which it enters the heap: a holder of the heap begins a change in another section only where
 * that one's version is even. */
#ifndef ACP_TRANSACTION_H
#define ACP_TRANSACTION_H

#include "base/likely.h"
#include "core/engine.h"

#include <stdatomic.h>

struct heap;

#define SECTION_WORDS 48u  /* words that one change may set */
#define SECTION_BLOCKS 4u  /* blocks that one change may take, and the same number that it may drop */
#define SECTION_SCRATCH ((uint64_t)256)

enum section_state { SECTION_IDLE = 0, SECTION_CHANGING, SECTION_COMMITTED };
enum section_moving { MOVING_NOTHING = 0, MOVING_NOW, MOVING_LATER };

/* Offsets count from the beginning of the heap. */
struct section {
    uint64_t lock;    /* 0: free; else its holder's process (transaction_lock.c) */
    uint64_t version; /* odd: a change is under way, or its process died in it */
    uint64_t state;
    uint64_t count;   /* of words in the journal, while changing */
    uint64_t holder;  /* process id of the last one to enter */
    uint64_t patient; /* waiters look seldom; set by the creator */
    uint64_t fresh[SECTION_BLOCKS]; /* blocks taken: they go back if the change does not happen */
    uint64_t stale[SECTION_BLOCKS]; /* blocks to go back when it has happened */
    struct {
        uint64_t kind, to, from, size;
        uint64_t step; /* 2n: n chunks are moved; 2n + 1: the next one lies in the scratch */
    } moving;
    struct {
        uint64_t at, old;
    } journal[SECTION_WORDS];
    unsigned char scratch[SECTION_SCRATCH];
};

/* A section that this thread has entered. */
struct hold {
    acp_lane *lane;
    struct section *section;
    struct heap *heap;
    unsigned char *base; /* of the heap */
    uint64_t last;       /* word of it */
    uint64_t count;      /* of the journal */
    bool blocks; /* the change takes or drops blocks, or moves bytes */
    bool damaged; /* an inconsistency was found: the change will not happen */
    uint64_t spill; /* for a block that has no place in the section then */
};

/* ACP_FOREVER: until the lock is free or a signal ends the wait, for a caller without another section; else no longer
 * than `patience_ns`, then ACP_E_BUSY. The leader, or a holder of a lock, never waits. */
int transaction_enter(struct hold *h, acp_lane *lane, struct section *s, struct heap *heap,
                      int64_t patience_ns);
void transaction_leave(struct hold *h);

void transaction_begin(struct hold *h);
int transaction_commit(struct hold *h); /* now it has happened; or ACP_E_DAMAGED, as the call that it is part of */
void transaction_cancel(struct hold *h); /* as if it had not begun; the lane keeps its fault */
static inline void transaction_set(struct hold *h, uint64_t *word, uint64_t value);

struct setting {
    uint64_t *word, value;
};

/* Different words, all of which go to the journal before the first of them changes. */
static inline void transaction_set_all(struct hold *h, const struct setting *settings, uint32_t count);
/* A change without a journal: a later holder finishes it, from what is written down elsewhere. */
static inline void transaction_open(struct hold *h);
static inline void transaction_close(struct hold *h);
void transaction_settle(struct hold *h); /* gives back the blocks that the change before could not give back */
int transaction_take(struct hold *h, uint64_t size, uint64_t *block); /* ACP_E_BUSY: cancel, try again */
void transaction_drop(struct hold *h, uint64_t block);
/* Bytes that may overlap, one such call a change. Bytes that they overwrite outside of the source are lost at once
 * with `shift`; with `move` they stay until the change has happened. The change sets no words in their place. */
void transaction_shift(struct hold *h, uint64_t to, uint64_t from, uint64_t size);
void transaction_move(struct hold *h, uint64_t to, uint64_t from, uint64_t size);

/* Reading without the lock: the values read between the two count if nothing has changed. */
static inline uint64_t transaction_version(const struct section *s)
{
    return __atomic_load_n(&s->version, __ATOMIC_ACQUIRE);
}

static inline bool transaction_unchanged(const struct section *s, uint64_t looked)
{
    atomic_thread_fence(memory_order_acquire);
    return !(looked & 1) && __atomic_load_n(&s->version, __ATOMIC_RELAXED) == looked;
}

/* Stores in program order. Tests stop the process at each of them. */
#ifdef ACP_FAULTS
void transaction_fault_point(void);
#else
static inline void transaction_fault_point(void) {}
#endif

static inline void transaction_store(uint64_t *word, uint64_t value)
{
    transaction_fault_point();
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    atomic_signal_fence(memory_order_seq_cst); /* later accesses stay behind it, too */
}

static inline void transaction_open(struct hold *h)
{
    struct section *s = h->section;
    if (unlikely(s->version & 1))
        transaction_settle(h);
    transaction_store(&s->version, s->version + 1);
    atomic_thread_fence(memory_order_release); /* readers see the version before the rest */
}

static inline void transaction_close(struct hold *h)
{
    transaction_store(&h->section->version, h->section->version + 1);
}

/* A word of the heap: its old value goes to the journal. */
static inline void transaction_set(struct hold *h, uint64_t *word, uint64_t value)
{
    struct section *s = h->section;
    uint64_t at = (uint64_t)((unsigned char *)word - h->base), n = h->count;
    if (unlikely(n == SECTION_WORDS || at > h->last || at % 8)) {
        h->damaged = true;
        return;
    }
    s->journal[n].at = at;
    s->journal[n].old = *word;
    h->count = n + 1;
    transaction_store(&s->count, n + 1);
    transaction_store(word, value);
}

static inline void transaction_set_all(struct hold *h, const struct setting *settings, uint32_t count)
{
    struct section *s = h->section;
    const unsigned char *base = h->base;
    uint64_t n = h->count, last = h->last;
    if (unlikely(n + count > SECTION_WORDS)) {
        h->damaged = true;
        return;
    }
#pragma GCC unroll 8 /* so that settings are words in registers */
    for (uint32_t i = 0; i < count; i++, n++) {
        uint64_t at = (uint64_t)((const unsigned char *)settings[i].word - base);
        if (unlikely(at > last)) {
            h->damaged = true;
            return;
        }
        s->journal[n].at = at;
        s->journal[n].old = *settings[i].word;
    }
    h->count = n;
    transaction_store(&s->count, n);
#pragma GCC unroll 8
    for (uint32_t i = 0; i < count; i++)
        transaction_store(settings[i].word, settings[i].value);
}

#endif
