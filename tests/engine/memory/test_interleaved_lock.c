/* The lock of a section: one at a time, who waits for it is woken, and whoever has died with it holds nobody up. */
#include "interleaver/interleaved.h"

#include "memory/transaction_lock.c"

#define OWN_PID 5u
#define DEAD_PID 6u
#define OLD_WORD (OWN_PID | (uint64_t)8 << 32) /* of a process that had this one's number before it */
#define DEAD_WORD (DEAD_PID | (uint64_t)9 << 32)

static acp_engine engine = {.row = {.pid = OWN_PID, .start_time = 10}};
static acp_lane lane = {.engine = &engine, .index = LANE_CALLER};
static struct section section;
static uint64_t guarded;

uint64_t linux_now_ns(void)
{
    return 1; /* no wait is over because of the time */
}

uint64_t linux_start_time(uint32_t pid, bool *dead)
{
    CHECK(pid == DEAD_PID); /* of itself a process knows it */
    *dead = true;
    return 0;
}

static void start_with(uint64_t word)
{
    section.lock = word;
    guarded = 0;
    SHARE(section.lock);
    SHARE_PLAIN(guarded);
}

static void start(void)
{
    il_futex_ends = false;
    start_with(0);
}

static void start_locked(void)
{
    il_futex_ends = false;
    start_with(word_of(&engine));
}

/* Nobody else has seen that it is dead. */
static void start_with_dead(void)
{
    il_futex_ends = true;
    start_with(DEAD_WORD);
}

static void start_with_dead_awaited(void)
{
    il_futex_ends = true;
    start_with(DEAD_WORD | LOCK_WANTED);
}

static void start_with_predecessor(void)
{
    il_futex_ends = true;
    start_with(OLD_WORD);
}

static void change_and_unlock(void)
{
    guarded++; /* lost, if two are here at once */
    transaction_lock_release(&section);
}

/* As transaction_enter does it, but for the looks at the lock before the wait. */
static void add(void)
{
    if (!transaction_lock_try(&lane, &section) && !lock_take(&lane, &section, 0))
        MUST(lock_for(&lane, &section, SLICE_NS) == 0);
    change_and_unlock();
}

/* Who has found it taken. */
static void wait_and_add(void)
{
    MUST(lock_for(&lane, &section, SLICE_NS) == 0);
    change_and_unlock();
}

static void check_sum(void)
{
    MUST(section.lock == 0 && guarded == 2);
}

static void check_three(void)
{
    MUST(section.lock == 0 && guarded == 3);
}

int main(void)
{
    static const struct scenario all[] = {
        {.name = "two add", .start = start, .threads = {add, add}, .check = check_sum},
        {.name = "two wait for one who adds", .start = start_locked, .threads = {change_and_unlock, wait_and_add, wait_and_add},
         .check = check_three},
        {.name = "two find the lock of the dead", .start = start_with_dead, .threads = {add, add}, .check = check_sum},
        {.name = "two find the lock of the dead, awaited", .start = start_with_dead_awaited, .threads = {add, add},
         .check = check_sum},
        {.name = "two find the lock of an earlier process", .start = start_with_predecessor, .threads = {add, add},
         .check = check_sum},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        explore(&all[i]);
    return 0;
}
