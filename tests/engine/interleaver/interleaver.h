/* Goes through all orders in which the steps of a few threads can happen, on two machines: x86, where a
 * store waits in its processor's buffer, and one on which a load may bring any store that the C standard
 * lets it, as those of aarch64 may. What a step is: interleaved.h.
 *
 * A test names the shared words (SHARE). Stores without an atomic are found by what has changed when the
 * next step begins; loads without one see the oldest store that the thread may still see. A state that was
 * seen before is not gone through again: what a thread will do follows from what it has read, so it keeps
 * nothing for others in words that are not shared. A thread that looks and pauses goes on after another
 * one has changed something. At the end of each order all threads have ended. */
#ifndef ACP_TESTS_INTERLEAVER_H
#define ACP_TESTS_INTERLEAVER_H

#include "support/check.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INTERLEAVER_RUNS false /* they do not know its stacks, and there is one thread */
#else
#define INTERLEAVER_RUNS true
#endif

#define IL_ACTORS 4u
#define IL_PLACES 24u
#define IL_STORES 48u /* of a place in one order; those of a buffer */
#define IL_STEPS 600u
#define IL_STATES (1u << 20)
#define IL_LOCKS 4u
#define IL_BELLS 4u
#define IL_STACK (64u << 10)

enum il_machine { IL_X86, IL_WEAK };

struct il_view { /* the number of the newest store of each place that is known */
    uint8_t at[IL_PLACES];
};

struct il_word {
    unsigned char *address;
    const char *name;
    uint32_t size;
    bool plain; /* no atomic is used for it */
    uint64_t hash;
    uint32_t count;
    uint64_t first;
    struct {
        uint64_t value;
        struct il_view view; /* what who takes it, with an acquire, knows then */
    } stores[IL_STORES];
};

enum il_doing { IL_READY, IL_RELAXES, IL_SLEEPS, IL_ENDED };

struct il_thread {
    ucontext_t begin;
    jmp_buf at;
    bool begun, registered; /* registered: it runs the fences that others ask for */
    enum il_doing doing;
    const void *on; /* what it sleeps on */
    uint64_t history;
    struct il_view sees, heard, fenced; /* heard: an acquire fence would add it; fenced: at its last release fence */
    uint32_t buffered;
    struct {
        uint32_t place;
        uint64_t value;
    } buffer[IL_STORES];
    uint64_t shown[IL_PLACES];
    _Alignas(64) unsigned char stack[IL_STACK];
};

struct il_meeting { /* a lock, or a bell: what its last user knew */
    const void *key;
    uint32_t count;
    int owner;
    struct il_view view;
};

struct scenario {
    const char *name;
    void (*start)(void); /* puts everything into its first state, and registers whom it should */
    void (*threads[IL_ACTORS])(void);
    void (*check)(void); /* at the end of each order */
};

static struct {
    const struct scenario *scenario;
    enum il_machine machine;
    struct il_word places[IL_PLACES];
    uint32_t place_count, actor_count;
    struct il_thread actors[IL_ACTORS];
    struct il_view sc;
    struct il_meeting locks[IL_LOCKS], bells[IL_BELLS];
    int running;
    uint32_t steps, planned, traced;
    struct {
        uint8_t chosen, ways;
    } decided[IL_STEPS];
    struct {
        int actor;
        const char *what, *name;
        uint64_t value;
    } trace[IL_STEPS];
    uint64_t seen[IL_STATES];
    uint64_t states, orders;
    jmp_buf over;
} il;

#define IL_ACTOR (&il.actors[il.running])

static uint64_t il_mix(uint64_t a, uint64_t b)
{
    a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
    a ^= a >> 33;
    a *= 0xff51afd7ed558ccdu;
    return a ^ a >> 29;
}

static inline void il_fail(const char *what)
{
    fprintf(stderr, "%s, %s: %s\n", il.scenario->name, il.machine == IL_X86 ? "x86" : "weak order", what);
    for (uint32_t i = 0; i < il.traced; i++)
        fprintf(stderr, "  %c: %s %s %#llx\n", 'A' + il.trace[i].actor, il.trace[i].what, il.trace[i].name,
                (unsigned long long)il.trace[i].value);
    exit(1);
}

#define MUST(condition) ((condition) ? (void)0 : il_fail("must hold: " #condition))

static void il_trace(int actor, const char *what, const char *name, uint64_t value)
{
    if (il.traced == IL_STEPS)
        il_fail("goes on for ever");
    il.trace[il.traced].actor = actor;
    il.trace[il.traced].what = what;
    il.trace[il.traced].name = name;
    il.trace[il.traced++].value = value;
}

static void il_join(struct il_view *v, const struct il_view *other)
{
    for (uint32_t i = 0; i < il.place_count; i++)
        if (v->at[i] < other->at[i])
            v->at[i] = other->at[i];
}

static inline bool il_acquires(int order)
{
    return order != memory_order_relaxed && order != memory_order_release;
}

static bool il_releases(int order)
{
    return order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

static uint64_t il_read(const struct il_word *p)
{
    uint64_t value = 0;
    memcpy(&value, p->address, p->size);
    return value;
}

/* Makes a word of memory one that threads share. */
static inline void il_share(void *address, uint32_t size, const char *name, bool plain)
{
    CHECK(size <= 8 && il.place_count < IL_PLACES);
    il.places[il.place_count++] = (struct il_word){.address = address, .size = size, .name = name, .plain = plain};
}
#define SHARE(word) il_share((void *)(uintptr_t)&(word), sizeof(word), #word, false)
#define SHARE_PLAIN(word) il_share((void *)(uintptr_t)&(word), sizeof(word), #word, true)

static inline struct il_word *il_around(const volatile void *address)
{
    for (uint32_t i = 0; i < il.place_count; i++)
        if ((uintptr_t)address - (uintptr_t)il.places[i].address < il.places[i].size)
            return &il.places[i];
    return NULL;
}

static inline struct il_word *il_place(const volatile void *address, uint32_t size)
{
    struct il_word *p = il_around(address);
    CHECK(!p || (address == p->address && size == p->size));
    return p;
}

static uint64_t il_newest(const struct il_word *p)
{
    return p->stores[p->count - 1].value;
}

/* Is what this thread sees there the last that anybody has stored? */
static inline bool il_settled(const volatile void *address)
{
    const struct il_word *p = il_place(address, 8);
    uint32_t index = (uint32_t)(p - il.places);
    bool settled = il.machine == IL_X86 || IL_ACTOR->sees.at[index] == p->count - 1;
    for (uint32_t i = 0; i < il.actor_count; i++)
        for (uint32_t k = 0; k < il.actors[i].buffered; k++)
            settled &= (int)i == il.running || il.actors[i].buffer[k].place != index;
    return settled;
}

/* The store is in memory, for all to see. */
static void il_append(struct il_word *p, uint64_t value, const struct il_view *view)
{
    uint32_t index = (uint32_t)(p - il.places);
    if (il.machine == IL_X86) {
        p->stores[0].value = value;
        p->hash = il_mix(index, value);
    } else {
        CHECK(p->count < IL_STORES);
        p->stores[p->count].value = value;
        p->stores[p->count].view = *view;
        p->stores[p->count].view.at[index] = (uint8_t)p->count;
        p->hash = il_mix(p->hash, value);
        for (uint32_t i = 0; i < il.place_count; i++)
            p->hash = il_mix(p->hash, p->stores[p->count].view.at[i]);
        p->count++;
    }
    for (uint32_t i = 0; i < il.actor_count; i++)
        if (il.actors[i].doing == IL_RELAXES && (int)i != il.running)
            il.actors[i].doing = IL_READY;
}

static void il_flush(struct il_thread *a)
{
    il_append(&il.places[a->buffer[0].place], a->buffer[0].value, NULL);
    memmove(a->buffer, a->buffer + 1, --a->buffered * sizeof *a->buffer);
}

static void il_drain(struct il_thread *a)
{
    while (a->buffered)
        il_flush(a);
}

static void il_write(struct il_word *p, uint64_t value, int order)
{
    struct il_thread *a = IL_ACTOR;
    uint32_t index = (uint32_t)(p - il.places);
    if (il.machine == IL_X86) {
        CHECK(a->buffered < IL_STORES);
        a->buffer[a->buffered].place = index;
        a->buffer[a->buffered++].value = value;
        if (order == memory_order_seq_cst)
            il_drain(a);
        return;
    }
    il_append(p, value, il_releases(order) ? &a->sees : &a->fenced);
    a->sees.at[index] = (uint8_t)(p->count - 1);
    if (order == memory_order_seq_cst)
        il.sc.at[index] = a->sees.at[index];
}

static uint64_t il_sight(const struct il_thread *a, uint32_t index)
{
    const struct il_word *p = &il.places[index];
    if (il.machine == IL_WEAK)
        return p->stores[a->sees.at[index]].value;
    for (uint32_t i = a->buffered; i-- > 0;)
        if (a->buffer[i].place == index)
            return a->buffer[i].value;
    return p->stores[0].value;
}

/* Puts into memory what the thread sees there. */
static void il_show(struct il_thread *a)
{
    for (uint32_t i = 0; i < il.place_count; i++) {
        a->shown[i] = il_sight(a, i);
        memcpy(il.places[i].address, &a->shown[i], il.places[i].size);
        if (il.places[i].plain)
            a->history = il_mix(a->history, a->shown[i]);
    }
}

/* What it has stored without an atomic. */
static void il_notice(struct il_thread *a)
{
    for (uint32_t i = 0; i < il.place_count; i++) {
        uint64_t now = il_read(&il.places[i]);
        if (now == a->shown[i])
            continue;
        il_trace(il.running, "stores", il.places[i].name, now);
        il_write(&il.places[i], now, memory_order_relaxed);
        a->shown[i] = now;
    }
}

static uint32_t il_decide(uint32_t ways)
{
    if (ways == 1)
        return 0;
    if (il.steps == IL_STEPS)
        il_fail("goes on for ever");
    uint8_t chosen = il.steps < il.planned ? il.decided[il.steps].chosen : 0;
    il.decided[il.steps].chosen = chosen;
    il.decided[il.steps++].ways = (uint8_t)ways;
    return chosen;
}

/* Has this state been seen before? Now it has. */
static bool il_known(void)
{
    uint64_t h = 1;
    for (uint32_t i = 0; i < il.place_count; i++)
        h = il_mix(h, il.places[i].hash + il.sc.at[i]);
    for (uint32_t i = 0; i < il.actor_count; i++) {
        const struct il_thread *a = &il.actors[i];
        h = il_mix(h, a->history + (uint64_t)a->doing + 8 * (uint64_t)a->registered + 16 * a->buffered);
        for (uint32_t k = 0; k < a->buffered; k++)
            h = il_mix(h, il_mix(a->buffer[k].place, a->buffer[k].value));
        for (uint32_t k = 0; il.machine == IL_WEAK && k < il.place_count; k++)
            h = il_mix(h, a->sees.at[k] + ((uint64_t)a->heard.at[k] << 8) + ((uint64_t)a->fenced.at[k] << 16));
    }
    for (uint32_t i = 0; i < IL_LOCKS + IL_BELLS; i++) {
        const struct il_meeting *x = i < IL_LOCKS ? &il.locks[i] : &il.bells[i - IL_LOCKS];
        h = il_mix(h, (uintptr_t)x->key);
        h = il_mix(h, (uint64_t)(x->owner + 2) << 32 | x->count);
        for (uint32_t k = 0; il.machine == IL_WEAK && k < il.place_count; k++)
            h = il_mix(h, x->view.at[k]);
    }
    h += !h;
    uint64_t at = h % IL_STATES;
    while (il.seen[at] && il.seen[at] != h)
        at = (at + 1) % IL_STATES;
    if (il.seen[at])
        return true;
    il.seen[at] = h;
    if (++il.states > IL_STATES / 2)
        il_fail("too many states");
    return false;
}

static _Noreturn void il_resume(int next)
{
    il.running = next;
    if (il.actors[next].begun)
        _longjmp(il.actors[next].at, 1);
    il.actors[next].begun = true;
    setcontext(&il.actors[next].begin);
    abort();
}

/* Who goes on; buffers are emptied meanwhile as it pleases the machine. */
static int il_next(void)
{
    for (;;) {
        int ways[2 * IL_ACTORS];
        uint32_t count = 0;
        if (IL_ACTOR->doing == IL_READY)
            ways[count++] = il.running;
        for (int i = 0; i < (int)il.actor_count; i++)
            if (i != il.running && il.actors[i].doing == IL_READY)
                ways[count++] = i;
        for (int i = 0; i < (int)il.actor_count; i++)
            if (il.actors[i].buffered)
                ways[count++] = (int)IL_ACTORS + i;
        if (!count) { /* what they look at becomes visible in the end */
            for (uint32_t i = 0; i < il.actor_count; i++) {
                struct il_thread *a = &il.actors[i];
                if (a->doing != IL_RELAXES)
                    continue;
                a->doing = IL_READY;
                for (uint32_t k = 0; il.machine == IL_WEAK && k < il.place_count; k++)
                    a->sees.at[k] = (uint8_t)(il.places[k].count - 1);
                count++;
            }
            if (!count)
                return -1;
            continue;
        }
        if (count > 1 && il.steps >= il.planned && il_known())
            _longjmp(il.over, 2);
        int way = ways[il_decide(count)];
        if (way < (int)IL_ACTORS)
            return way;
        struct il_thread *a = &il.actors[way -= (int)IL_ACTORS];
        il_trace(way, "reaches memory with", il.places[a->buffer[0].place].name, a->buffer[0].value);
        il_flush(a);
    }
}

/* Others may go on first. */
static inline void il_step(void)
{
    struct il_thread *a = IL_ACTOR;
    il_notice(a);
    int next = il_next();
    if (next < 0)
        _longjmp(il.over, 1);
    if (next != il.running && !_setjmp(a->at))
        il_resume(next);
}

static inline void il_done(const char *what, const char *name, uint64_t value)
{
    IL_ACTOR->history = il_mix(il_mix(IL_ACTOR->history, value), (uint64_t)what[0]);
    il_trace(il.running, what, name, value);
    il_show(IL_ACTOR);
}

/* It has been chosen, and is on its way to its next step. */
static inline void il_goes_on(void)
{
    IL_ACTOR->history = il_mix(IL_ACTOR->history, 1);
    il_show(IL_ACTOR);
}

static inline void il_sleep(const void *on)
{
    IL_ACTOR->doing = IL_SLEEPS;
    IL_ACTOR->on = on;
    il_show(IL_ACTOR);
    il_step();
    il_goes_on();
}

static inline void il_wake(const void *on)
{
    for (uint32_t i = 0; i < il.actor_count; i++)
        if (il.actors[i].doing == IL_SLEEPS && il.actors[i].on == on)
            il.actors[i].doing = IL_READY;
}

static inline void il_full_fence(struct il_thread *a)
{
    il_drain(a);
    il_join(&a->sees, &a->heard);
    il_join(&il.sc, &a->sees);
    a->sees = a->fenced = il.sc;
}
static void il_body(void)
{
    struct il_thread *a = IL_ACTOR;
    il_goes_on();
    il.scenario->threads[il.running]();
    il_notice(a);
    a->doing = IL_ENDED;
    il_trace(il.running, "ends", "", 0);
    int next = il_next();
    if (next < 0)
        _longjmp(il.over, 1);
    il_resume(next);
}

static void il_begin(void)
{
    il.place_count = il.steps = il.traced = 0;
    memset(&il.sc, 0, sizeof il.sc);
    memset(il.locks, 0, sizeof il.locks);
    memset(il.bells, 0, sizeof il.bells);
    for (uint32_t i = 0; i < il.actor_count; i++) {
        struct il_thread *a = &il.actors[i];
        size_t known = offsetof(struct il_thread, begun);
        memset((char *)a + known, 0, offsetof(struct il_thread, stack) - known);
        getcontext(&a->begin);
        a->begin.uc_stack.ss_sp = a->stack;
        a->begin.uc_stack.ss_size = sizeof a->stack;
        a->begin.uc_link = NULL;
        makecontext(&a->begin, il_body, 0);
    }
    il.scenario->start();
    for (uint32_t i = 0; i < il.place_count; i++) {
        struct il_word *p = &il.places[i];
        p->count = 1;
        p->stores[0].value = il_read(p);
        memset(&p->stores[0].view, 0, sizeof p->stores[0].view);
        p->hash = il_mix(i, p->stores[0].value);
    }
}

/* One order of all steps; false: from some step on it is one that was seen. */
static bool il_run_once(void)
{
    il_begin();
    switch (_setjmp(il.over)) {
    case 0: il_resume(0);
    case 2: return false;
    }
    bool asleep = false;
    for (uint32_t i = 0; i < il.actor_count; i++)
        asleep |= il.actors[i].doing != IL_ENDED;
    for (uint32_t i = 0; i < il.place_count; i++) {
        uint64_t value = il_newest(&il.places[i]);
        memcpy(il.places[i].address, &value, il.places[i].size);
    }
    if (asleep)
        il_fail("sleeps for ever");
    if (il.scenario->check)
        il.scenario->check();
    return true;
}

static bool il_plan_next(void)
{
    for (il.planned = il.steps;
         il.planned && il.decided[il.planned - 1].chosen + 1 == il.decided[il.planned - 1].ways;)
        il.planned--;
    if (il.planned)
        il.decided[il.planned - 1].chosen++;
    return il.planned;
}

static inline void explore(const struct scenario *s)
{
    if (!INTERLEAVER_RUNS) {
        printf("%s: not gone through under this sanitizer\n", s->name);
        return;
    }
    for (il.machine = IL_X86; il.machine <= IL_WEAK; il.machine++) {
        il.scenario = s;
        il.planned = 0;
        il.states = il.orders = 0;
        il.actor_count = 0;
        memset(il.seen, 0, sizeof il.seen);
        while (il.actor_count < IL_ACTORS && s->threads[il.actor_count])
            il.actor_count++;
        do
            il.orders += il_run_once();
        while (il_plan_next());
        printf("%s, %s: %llu states, %llu ends\n", s->name, il.machine == IL_X86 ? "x86" : "weak order",
               (unsigned long long)il.states, (unsigned long long)il.orders);
    }
}

#endif
