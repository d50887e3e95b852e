/* The entry in which the members of a barrier count: all find the same one, though they may have to take it from
 * another set, and see different ones idle. */
#include "interleaved.h"

#include "party.h"

#define now_ns() ((uint64_t)0) /* nobody dies here */
#include "barrier.c"

#define KEY 21u
#define FIRST (KEY / 2 % BARRIER_ENTRIES) /* where all begin to look */
#define ENTRY(i) doors.barriers[FIRST + (i)]

static struct doors doors;
static struct barrier_entry *found[2];

/* All entries are those of other sets, and used; the first `idle` from where they look are not. */
static void start_with(uint32_t idle)
{
    memset(found, 0, sizeof found);
    for (uint32_t i = 0; i < BARRIER_ENTRIES; i++) {
        doors.barriers[i].key = 1001 + 2 * i;
        doors.barriers[i].state = 1;
    }
    for (uint32_t i = 0; i < idle; i++)
        ENTRY(i).state = 0;
    for (uint32_t i = 0; i < 2; i++) {
        SHARE(ENTRY(i).state);
        SHARE(ENTRY(i).key);
    }
}

/* The first is being left just now, the second is idle. */
static void start_leaving(void)
{
    start_with(0);
    ENTRY(1).state = 0;
}

static void start_free(void)
{
    start_with(2);
    ENTRY(0).key = 0;
}

static void start_idle(void)
{
    start_with(2);
}

static void leave_first(void)
{
    atomic_fetch_sub(&ENTRY(0).state, 1);
}

static void find_one(void)
{
    found[0] = entry_of(&doors, KEY);
}

static void find_other(void)
{
    found[1] = entry_of(&doors, KEY);
}

static void check(void)
{
    uint32_t with_key = 0;
    for (uint32_t i = 0; i < BARRIER_ENTRIES; i++)
        with_key += doors.barriers[i].key == KEY;
    MUST(found[0] && found[0] == found[1] && with_key == 1 && (found[0]->state & 0xffff) == 0);
}

static const struct scenario scenarios[] = {
    {.name = "an entry is free", .start = start_free, .threads = {find_one, find_other}, .check = check},
    {.name = "two entries are idle", .start = start_idle, .threads = {find_one, find_other}, .check = check},
    {.name = "one becomes idle", .start = start_leaving, .threads = {find_one, find_other, leave_first},
     .check = check},
};

int main(void)
{
    for (uint32_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        explore(&scenarios[i]);
    return 0;
}
