/* How a ring reaches a thread that dozes, and how what is written wakes who waits for it: no order of the steps
 * of all who take part leaves somebody asleep. */
#include "interleaver/interleaved.h"

#include "memory/translate.h"

#define write(fd, bytes, size) ((void)(bytes), il_ring((void *)(intptr_t)(fd)), (ssize_t)(size))
#include "membership/wait_until.c"
#include "progress/doorbell.c"
#include "core/membarrier.c"

#define DOOR 7

static acp_engine waiter, writer;
static struct doors doors;
static struct control control;
static struct peer waiters = {.shm.doors = &doors, .shm.control = &control, .shm.door_fd = DOOR};
static uint64_t word;

static void start_doorbell(void)
{
    memset(&doors, 0, sizeof doors);
    waiter.doors = &doors;
    waiter.job.own = NULL;
    word = 0;
}

/* Dozing */

static void start_dozing(void)
{
    start_doorbell();
    SHARE(doors.event);
    SHARE(doors.dozing);
    SHARE(word);
}

static bool is_there(void *nothing)
{
    (void)nothing;
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

static void doze_until_there(void)
{
    while (!is_there(NULL))
        doorbell_doze(&waiter, is_there, NULL, ACP_FOREVER);
}

static void another_ring(void)
{
    doorbell_wake(&doors);
}

static void bring(void)
{
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    doorbell_wake(&doors);
}

static const struct scenario dozing = {
    .name = "a thread dozes",
    .start = start_dozing,
    .threads = {doze_until_there, another_ring, bring},
};

/* Waiting for a word that another process writes: it fences where it is asked to. */

static void start_waiting(void)
{
    start_doorbell();
    SHARE(word);
    SHARE(doors.watching);
    SHARE(doors.watches[0].low);
    SHARE(doors.watches[0].high);
    SHARE(doors.watches[0].armed);
    il.actors[1].registered = true;
}

static void wait_for_word(void)
{
    static const acp_word where = {.address = &word, .position = 64, .width = 8};
    struct word_wait w = {.word = where.address, .width = 8, .op = ACP_EQ, .value = 1, .engine = &waiter};
    w.watch = watch_take(&waiter, &where);
    while (!word_ready(&w))
        il_await((void *)(intptr_t)DOOR);
    watch_give(&waiter, w.watch);
    MUST(__atomic_load_n(&word, __ATOMIC_RELAXED) == 1);
}

/* As execute.c does. */
static void write_word(void)
{
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    if (atomic_load_explicit(&doors.watching, memory_order_relaxed))
        doorbell_notify(&writer, &waiters, 64, 8);
}

static const struct scenario waiting = {
    .name = "a word is waited for",
    .start = start_waiting,
    .threads = {wait_for_word, write_word},
};

int main(void)
{
    explore(&dozing);
    explore(&waiting);
    return 0;
}
