/* The ring that a process is sent messages by, and its sleep: each message arrives once and whole, and nobody
 * sleeps while one lies there. */
#include "support/inbox_stage.h"

static void send_first(void)
{
    inbox_send(0, ACP_REPLY);
}

static void send_second(void)
{
    inbox_send(1, ACP_REPLY);
}

static void receive_asleep(void)
{
    bool interrupted;
    while (!arrived[0])
        if (!shm_ring_drain(&owner.lanes[LANE_LEADER]))
            progress_sleep(&owner, ACP_FOREVER, &interrupted);
}

/* Who stops leading leaves what comes to the progress thread, which sleeps until it is rung for. */
static void receive_by_another(void)
{
    il_lock(&owner.progress.leader);
    atomic_store(&control.asleep, 0);
    progress_leader_release(&owner);
    do
        il_await((void *)(intptr_t)DOOR);
    while (!shm_ring_drain(&owner.lanes[LANE_LEADER]));
}

/* Both lie there, each in a cell of its own. */
static void check_both(void)
{
    uint32_t lines = 0;
    for (uint32_t i = 0; i < SENDERS; i++) {
        uint64_t state = doors.cells[i].state;
        uint32_t line = (uint32_t)state & 0x3fffffff;
        MUST(state >> 30 == CELL_FULL && line < SENDERS);
        MUST(doors.cells[i].message.from == line && doors.cells[i].message.id == 10 + line);
        lines |= 1u << line;
    }
    MUST(lines == 3);
}

static const struct scenario sleeping = {
    .name = "the owner of a ring sleeps",
    .start = inbox_start_empty,
    .threads = {receive_asleep, send_first},
};

static const struct scenario releasing = {
    .name = "nobody leads any more",
    .start = inbox_start_empty,
    .threads = {receive_by_another, send_first},
};

static const struct scenario crowded = {
    .name = "two send at once",
    .start = inbox_start_empty,
    .threads = {send_first, send_second},
    .check = check_both,
};

int main(void)
{
    inbox_create();
    explore(&sleeping);
    explore(&releasing);
    explore(&crowded);
    return 0;
}
