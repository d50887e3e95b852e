/* The engine's functions as threads of the interleaver run them: a test includes the C file that has them
 * after this, and macros take the place of atomics, locks and calls of the system. Each access by an
 * atomic to a shared word, and each such call, is a step. */
#ifndef ACP_TESTS_INTERLEAVED_H
#define ACP_TESTS_INTERLEAVED_H

#include "base/linux.h"
#include "core/engine_state.h"
#include "interleaver/interleaver.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline uint64_t il_load(const volatile void *address, uint32_t size, int order)
{
    uint64_t value = 0;
    struct il_word *p = il_place(address, size);
    if (!p) {
        memcpy(&value, (const void *)(uintptr_t)address, size);
        return value;
    }
    il_step();
    struct il_thread *a = IL_ACTOR;
    uint32_t index = (uint32_t)(p - il.places);
    if (il.machine == IL_WEAK) {
        uint32_t oldest = a->sees.at[index];
        if (order == memory_order_seq_cst && oldest < il.sc.at[index])
            oldest = il.sc.at[index];
        uint32_t one = p->count - 1 - il_decide(p->count - oldest);
        a->sees.at[index] = (uint8_t)one;
        il_join(il_acquires(order) ? &a->sees : &a->heard, &p->stores[one].view);
    }
    value = il_sight(a, index);
    il_done("loads", p->name, value);
    return value;
}

static inline void il_store(volatile void *address, uint32_t size, uint64_t value, int order)
{
    struct il_word *p = il_place(address, size);
    if (!p) {
        memcpy((void *)(uintptr_t)address, &value, size);
        return;
    }
    il_step();
    value &= ~(uint64_t)0 >> (64 - 8 * size);
    il_write(p, value, order);
    il_done("stores", p->name, value);
}

enum il_change { IL_ADD, IL_SUB, IL_SET, IL_SWAP };

/* What was there; IL_SWAP: it changes only if that is `expected`. */
static inline uint64_t il_change(volatile void *address, uint32_t size, enum il_change how, uint64_t value,
                                 uint64_t expected, int order)
{
    struct il_word private = {.address = (unsigned char *)(uintptr_t)address, .size = size};
    struct il_word *p = il_place(address, size);
    uint64_t was, mask = ~(uint64_t)0 >> (64 - 8 * size);
    if (p) {
        il_step();
        il_drain(IL_ACTOR);
    }
    was = p ? il_newest(p) : il_read(&private);
    uint64_t now = (how == IL_ADD ? was + value : how == IL_SUB ? was - value : value) & mask;
    bool changes = how != IL_SWAP || was == (expected & mask);
    if (!p) {
        if (changes)
            memcpy(private.address, &now, size);
        return was;
    }
    struct il_thread *a = IL_ACTOR;
    uint32_t index = (uint32_t)(p - il.places);
    if (il.machine == IL_WEAK) {
        struct il_view brought = p->stores[p->count - 1].view;
        a->sees.at[index] = (uint8_t)(p->count - 1);
        il_join(il_acquires(order) ? &a->sees : &a->heard, &brought);
        if (changes) {
            struct il_view view = il_releases(order) ? a->sees : a->fenced;
            il_join(&view, &brought);
            il_append(p, now, &view);
            a->sees.at[index] = (uint8_t)(p->count - 1);
            if (order == memory_order_seq_cst)
                il.sc.at[index] = a->sees.at[index];
        }
    } else if (changes) {
        il_append(p, now, NULL);
    }
    il_done(changes ? "changes" : "does not change", p->name, changes ? now : was);
    return was;
}

static inline void il_fence(int order)
{
    struct il_thread *a = IL_ACTOR;
    if (order == memory_order_relaxed)
        return;
    il_step();
    if (order == memory_order_seq_cst) {
        il_full_fence(a);
    } else {
        if (il_acquires(order))
            il_join(&a->sees, &a->heard);
        if (il_releases(order))
            a->fenced = a->sees;
    }
    il_done("runs", "a fence", (uint64_t)order);
}

/* The system call. Those that are registered run a fence wherever they are. */
static inline long il_membarrier(long number, int command)
{
    CHECK(number == SYS_membarrier);
    il_step();
    if (command == MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) {
        IL_ACTOR->registered = true;
        il_full_fence(IL_ACTOR);
    } else if (command == MEMBARRIER_CMD_GLOBAL_EXPEDITED) {
        for (uint32_t turn = 0; turn < 2; turn++) /* so that each knows of all */
            for (uint32_t i = 0; i < il.actor_count; i++)
                if ((int)i == il.running || il.actors[i].registered)
                    il_full_fence(&il.actors[i]);
    }
    il_done("calls", "membarrier", (uint64_t)command);
    return 0;
}

static inline void il_relax(void)
{
    IL_ACTOR->doing = IL_RELAXES;
    il_step();
    il_goes_on();
}

static struct il_meeting *il_meeting(struct il_meeting *table, uint32_t count, const void *key)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!table[i].key)
            table[i] = (struct il_meeting){.key = key, .owner = -1};
        if (table[i].key == key)
            return &table[i];
    }
    CHECK(!"more locks, or more bells, than there is room for");
    return NULL;
}

static inline int il_trylock(const void *mutex)
{
    struct il_meeting *x = il_meeting(il.locks, IL_LOCKS, mutex);
    il_step();
    il_drain(IL_ACTOR);
    bool mine = x->owner < 0;
    if (mine) {
        x->owner = il.running;
        il_join(&IL_ACTOR->sees, &x->view);
    }
    il_done(mine ? "locks" : "finds locked", "a mutex", 0);
    return mine ? 0 : EBUSY;
}

static inline int il_lock(const void *mutex)
{
    while (il_trylock(mutex))
        il_sleep(mutex);
    return 0;
}

static inline int il_unlock(const void *mutex)
{
    struct il_meeting *x = il_meeting(il.locks, IL_LOCKS, mutex);
    il_step();
    il_drain(IL_ACTOR);
    MUST(x->owner == il.running);
    x->owner = -1;
    x->view = IL_ACTOR->sees;
    il_wake(mutex);
    il_done("unlocks", "a mutex", 0);
    return 0;
}

static bool il_futex_ends; /* waits end by themselves in the end, as those with a time do */

/* The word may be the lower half of one. */
static inline long il_futex_wait(const volatile void *word, uint32_t value)
{
    struct il_word *p = il_around(word);
    il_step();
    il_full_fence(IL_ACTOR);
    if (il.machine == IL_WEAK) /* who has read it reads nothing older there */
        IL_ACTOR->sees.at[p - il.places] = (uint8_t)(p->count - 1);
    il_done("is about to sleep, and finds", p->name, il_newest(p));
    if ((uint32_t)il_newest(p) != value)
        return 0;
    if (il_futex_ends)
        il_relax();
    else
        il_sleep(p->address);
    return 0;
}

static inline void il_futex_wake(const volatile void *word)
{
    il_step();
    il_full_fence(IL_ACTOR);
    il_wake((const void *)(uintptr_t)word);
    il_done("wakes", "sleepers", 0);
}

/* An event counter. */
static inline void il_ring(const void *bell)
{
    struct il_meeting *x = il_meeting(il.bells, IL_BELLS, bell);
    il_step();
    il_drain(IL_ACTOR);
    x->count = 1;
    il_join(&x->view, &IL_ACTOR->sees);
    il_wake(bell);
    il_done("rings", "a bell", 0);
}

static inline void il_await(const void *bell)
{
    struct il_meeting *x = il_meeting(il.bells, IL_BELLS, bell);
    il_step();
    il_drain(IL_ACTOR);
    while (!x->count)
        il_sleep(bell);
    x->count = 0;
    il_join(&IL_ACTOR->sees, &x->view);
    il_done("hears", "a bell", 0);
}

/* From here on the engine's functions go through all of it. */
#define IL_TYPE(p) __typeof__((void)0, *(p))
#define IL_SIZE(p) (uint32_t)sizeof *(p)
#define IL_CHANGE(p, how, v, order)                                                                    \
    ({                                                                                                 \
        IL_TYPE(p) il_was = (IL_TYPE(p))il_change((p), IL_SIZE(p), how, (uint64_t)(v), 0, order);      \
        il_was;                                                                                        \
    })
#define IL_CAS(p, expected, desired, order)                                                            \
    ({                                                                                                 \
        __typeof__(expected) il_expected = (expected);                                                 \
        uint64_t il_was = il_change((p), IL_SIZE(p), IL_SWAP, (uint64_t)(desired),                     \
                                    (uint64_t)*il_expected, order);                                    \
        bool il_same = (IL_TYPE(p))il_was == *il_expected;                                             \
        if (!il_same)                                                                                  \
            *il_expected = (IL_TYPE(p))il_was;                                                         \
        il_same;                                                                                       \
    })

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#undef atomic_thread_fence
#define atomic_load_explicit(p, order) ((IL_TYPE(p))il_load((p), IL_SIZE(p), order))
#define atomic_store_explicit(p, v, order) il_store((p), IL_SIZE(p), (uint64_t)(v), order)
#define atomic_fetch_add_explicit(p, v, order) IL_CHANGE(p, IL_ADD, v, order)
#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store(p, v) atomic_store_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_add(p, v) atomic_fetch_add_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_sub(p, v) IL_CHANGE(p, IL_SUB, v, memory_order_seq_cst)
#define atomic_exchange(p, v) IL_CHANGE(p, IL_SET, v, memory_order_seq_cst)
#define atomic_compare_exchange_strong(p, expected, desired)                                           \
    IL_CAS(p, expected, desired, memory_order_seq_cst)
#define atomic_compare_exchange_weak atomic_compare_exchange_strong
#define atomic_thread_fence(order) il_fence(order)

#define __atomic_load_n(p, order) ((IL_TYPE(p))il_load((p), IL_SIZE(p), order))
#define __atomic_store_n(p, v, order) il_store((p), IL_SIZE(p), (uint64_t)(v), order)
#define __atomic_exchange_n(p, v, order) IL_CHANGE(p, IL_SET, v, order)
#define __atomic_fetch_add(p, v, order) IL_CHANGE(p, IL_ADD, v, order)
#define __atomic_fetch_sub(p, v, order) IL_CHANGE(p, IL_SUB, v, order)
#define __atomic_compare_exchange_n(p, expected, desired, weak, order, otherwise)                      \
    IL_CAS(p, expected, desired, order)

#define pthread_mutex_lock(mutex) il_lock(mutex)
#define pthread_mutex_trylock(mutex) il_trylock(mutex)
#define pthread_mutex_unlock(mutex) il_unlock(mutex)
#define sched_yield() il_relax()
#define linux_cpu_relax il_relax
#define linux_futex_wait(word, value, timeout_ns, shared) ((void)(timeout_ns), il_futex_wait(word, value))
#define linux_futex_wake(word, shared) il_futex_wake(word)
#define syscall(number, command, ...) il_membarrier(number, command)

#endif
