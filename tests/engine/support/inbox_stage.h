/* The ring that a process is sent messages by, and its sleep, for threads of the interleaver. */
#ifndef ACP_TESTS_INBOX_STAGE_H
#define ACP_TESTS_INBOX_STAGE_H

#include "interleaver/interleaved.h"

#include "core/upcalls.h"
#include "operations/op_table.h"

#define write(fd, bytes, size) ((void)(bytes), il_ring((void *)(intptr_t)(fd)), (ssize_t)(size))
#define road_ring own_road_ring /* the engine that is linked has one, too */
#include "transport/shm_ring.c"
#include "progress/progress.c"

#define DOOR 7
#define EVENT 8 /* of a thread that waits for a note and does not lead */
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

void doorbell_wake(struct doors *d)
{
    (void)d;
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
    __atomic_fetch_add(&arrived[m->from], 1, __ATOMIC_SEQ_CST);
    if (m->kind == ACP_CHANNEL)
        il_ring((void *)(intptr_t)EVENT);
}

static const struct poller parts[] = {{shm_ring_due, shm_ring_poll}, {NULL, NULL}};

static const struct upcalls up = {
    .provided = has_memory, .arrived = take_in, .locked = parts, .unlocked = parts + 1};

static void inbox_start(void)
{
    owner.up = &up;
    memset(&doors, 0, offsetof(struct doors, lines));
    memset(doors.cells, 0, sizeof doors.cells);
    memset(&control, 0, sizeof control);
    memset(arrived, 0, sizeof arrived);
    owner.doors = &doors;
    owner.control = &control;
    owner.shm.inbox_head = 0;
    owner.progress.polls = 0;
    owner.job.joined = true;
    for (uint32_t i = 0; i < SENDERS; i++)
        owners[i] = (struct peer){.shm.doors = &doors, .shm.control = &control, .shm.door_fd = DOOR, .shm.line = i};
    control.asleep = 1;
    SHARE(control.asleep);
    for (uint32_t i = 0; i < SENDERS; i++)
        SHARE(doors.cells[i].state);
}

/* Messages are written to their cells, too. */
static void inbox_start_empty(void)
{
    inbox_start();
    SHARE(doors.tail);
    for (uint32_t i = 0; i < SENDERS; i++)
        SHARE_PLAIN(doors.cells[i].message.id);
}

static void inbox_send(uint32_t i, uint8_t kind)
{
    struct message m = {.kind = kind, .id = 10 + i, .from = i};
    MUST(shm_ring_send(&senders[i].lanes[LANE_CALLER], &owners[i], 0, &m) == ACP_OK);
}

static void inbox_create(void)
{
    for (uint32_t i = 0; i < SENDERS; i++)
        senders[i].lanes[LANE_CALLER].engine = &senders[i];
    owner.lanes[LANE_LEADER].engine = &owner;
}

#endif
