/* The entry in which the members of a barrier count: all find the same one, though they may have to take it from
 * another set, and see different ones idle. */
#include "interleaver/interleaved.h"

#include "membership/team.h"

#define linux_now_ns() ((uint64_t)0) /* nobody dies here */
#include "membership/barrier.c"

#define KEY 21u
#define FIRST (KEY / 2 % BARRIER_ENTRIES) /* where all begin to look */
#define ENTRY(i) doors.barriers[FIRST + (i)]

static struct doors doors;
static struct barrier_entry *found[2];
static uint32_t through; /* the last of a set */

/* All entries are those of other sets, and used; the first `idle` from where they look are not. */
static void start_with(uint32_t idle)
{
    memset(found, 0, sizeof found);
    through = 0;
    for (uint32_t i = 0; i < BARRIER_ENTRIES; i++) {
        doors.barriers[i].key = KEY + 4 * BARRIER_ENTRIES + 2 * i; /* no key of those that come */
        doors.barriers[i].state = state_of(0, 0, 1);
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
    atomic_fetch_sub(&ENTRY(0).state, BARRIER_USER);
}

/* Two members of that set on this node: each comes to an entry, and counts there. Two sets may take an entry from each
 * other for as long as the order of their steps lets them: after so many tries one gives up. */
static void come(uint32_t member, uint64_t key, uint32_t tries)
{
    struct party party = {.key = key, .nodes = 1, .here = 2};
    struct gate gate = {.party = &party};
    bool last = false;
    int rc = ACP_E_BUSY;
    for (uint32_t i = 0; i < tries && rc == ACP_E_BUSY; i++) {
        gate.entry = entry_of(&doors, key);
        rc = gate.entry ? gate_arrive(&gate, &last) : ACP_E_FULL;
    }
    found[member] = rc == ACP_OK ? gate.entry : NULL;
    through += last;
}

static void come_first(void)
{
    come(0, KEY, 2);
}

static void come_second(void)
{
    come(1, KEY, 2);
}

/* As one of another set, which begins to look at the same entry. */
static void come_of_others(void)
{
    come(1, KEY + 2 * BARRIER_ENTRIES, 1);
}

static void check(void)
{
    MUST(found[0] && found[0] == found[1] && through == 1);
}

static void check_two_sets(void)
{
    MUST(!found[0] || found[0] != found[1]);
    MUST(!found[0] || found[0]->key == KEY);
    MUST(!found[1] || found[1]->key == KEY + 2 * BARRIER_ENTRIES);
    MUST(!through);
}

static const struct scenario scenarios[] = {
    {.name = "an entry is free", .start = start_free, .threads = {come_first, come_second}, .check = check},
    {.name = "an entry is free, for one of two sets", .start = start_free, .threads = {come_first, come_of_others},
     .check = check_two_sets},
    {.name = "two entries are idle", .start = start_idle, .threads = {come_first, come_second}, .check = check},
    {.name = "two entries are idle, for two sets", .start = start_idle, .threads = {come_first, come_of_others},
     .check = check_two_sets},
    {.name = "one becomes idle", .start = start_leaving, .threads = {come_first, come_second, leave_first},
     .check = check},
};

int main(void)
{
    for (uint32_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        explore(&scenarios[i]);
    return 0;
}
