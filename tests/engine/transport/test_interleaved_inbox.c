/* The ring that a process is sent messages by, and its sleep: each message arrives once and whole, and nobody
 * sleeps while one lies there. */
#include "interleaver/interleaved.h"

#include "core/upcalls.h"
#include "operations/op_table.h"

#define write(fd, bytes, size) ((void)(bytes), il_ring((void *)(intptr_t)(fd)), (ssize_t)(size))
#define road_ring own_road_ring /* the engine that is linked has one, too */
#include "transport/shm_ring.c"
#include "progress/progress.c"

#define DOOR 7
#define SENDERS 2u

static acp_engine owner, senders[SENDERS];
static struct doors doors;
static struct control control;
static struct peer own, owners[SENDERS];
static uint32_t arrived[SENDERS];

void doorbell_ring(acp_engine *e, const struct peer *p)
{
    (void)e;
    il_ring((void *)(intptr_t)p->shm.door_fd);
}

void reactor_arm(acp_engine *e, bool on)
{
    (void)e;
    (void)on;
}

/* Asleep; for a short time: until somebody has changed something. */
bool reactor_take(acp_engine *e, int64_t timeout_ns, bool *interrupted)
{
    (void)e;
    *interrupted = false;
    if (timeout_ns == ACP_FOREVER)
        il_await((void *)(intptr_t)DOOR);
    else if (timeout_ns)
        il_relax();
    return true;
}

void doorbell_kick(acp_engine *e)
{
    (void)e;
    il_ring((void *)(intptr_t)DOOR);
}

static bool has_memory(acp_engine *e)
{
    (void)e;
    return true;
}

bool newcomers_find(acp_engine *e, uint64_t slot)
{
    (void)e;
    return slot < SENDERS;
}

struct peer *peer_of_slot(acp_engine *e, uint32_t slot)
{
    (void)e;
    (void)slot;
    return &own;
}

bool peer_line_dead(acp_engine *e, struct doors *d, uint32_t line)
{
    (void)e;
    (void)d;
    (void)line;
    return false;
}

static void take_in(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                    const unsigned char *payload, uint64_t size)
{
    (void)lane;
    (void)from;
    (void)link;
    (void)payload;
    (void)size;
    MUST(m->from < SENDERS && m->id == 10 + m->from);
    arrived[m->from]++;
}

static const struct poller parts[] = {{shm_ring_due, shm_ring_poll}, {NULL, NULL}};

static const struct upcalls up = {
    .provided = has_memory, .arrived = take_in, .locked = parts, .unlocked = parts + 1};

static void start(void)
{
    owner.up = &up;
    memset(&doors, 0, offsetof(struct doors, lines));
    memset(doors.cells, 0, sizeof doors.cells);
    memset(&control, 0, sizeof control);
    memset(arrived, 0, sizeof arrived);
    owner.doors = &doors;
    owner.control = &control;
    owner.shm.inbox_head = 0;
    owner.job.joined = true;
    for (uint32_t i = 0; i < SENDERS; i++)
        owners[i] = (struct peer){.shm.doors = &doors, .shm.control = &control, .shm.door_fd = DOOR, .shm.line = i};
    SHARE(control.asleep);
    SHARE(doors.tail);
    for (uint32_t i = 0; i < SENDERS; i++) {
        SHARE_PLAIN(doors.cells[i].message.id);
        SHARE(doors.cells[i].state);
    }
}

static void send_from(uint32_t i)
{
    struct message m = {.kind = ACP_REPLY, .id = 10 + i, .from = i};
    MUST(shm_ring_send(&senders[i].lanes[LANE_CALLER], &owners[i], 0, &m) == ACP_OK);
}

static void send_first(void)
{
    send_from(0);
}

static void send_second(void)
{
    send_from(1);
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
    .start = start,
    .threads = {receive_asleep, send_first},
};

static const struct scenario releasing = {
    .name = "nobody leads any more",
    .start = start,
    .threads = {receive_by_another, send_first},
};

static const struct scenario crowded = {
    .name = "two send at once",
    .start = start,
    .threads = {send_first, send_second},
    .check = check_both,
};

int main(void)
{
    for (uint32_t i = 0; i < SENDERS; i++)
        senders[i].lanes[LANE_CALLER].engine = &senders[i];
    owner.lanes[LANE_LEADER].engine = &owner;
    explore(&sleeping);
    explore(&releasing);
    explore(&crowded);
    return 0;
}
