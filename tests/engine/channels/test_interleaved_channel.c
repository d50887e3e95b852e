/* Of several changes of channels of a process only the first rings its doorbell: no order of the steps of its leader, of
 * a thread that dozes beside it, and of those that change channels leaves one of them asleep. */
#include "interleaver/interleaved.h"

#define write(fd, bytes, size) ((void)(bytes), il_ring((void *)(intptr_t)(fd)), (ssize_t)(size))
#include "channels/channel_notes.c"
#include "peers/peer.c"
#include "progress/doorbell.c"

#define DOOR 7

static acp_engine receiver, sender;
static struct doors doors;
static struct control control;
static struct peer receivers = {.shm.doors = &doors, .shm.control = &control, .shm.door_fd = DOOR};
static uint64_t messages[2];

void progress_event(acp_engine *e)
{
    doorbell_wake(e->doors);
}

void channel_queue_stir(acp_engine *e)
{
    (void)e;
}

static void start(void)
{
    memset(&doors, 0, sizeof doors);
    memset(&control, 0, sizeof control);
    memset(messages, 0, sizeof messages);
    receiver.doors = &doors;
    receiver.lanes[LANE_LEADER].engine = &receiver;
    sender.self = 3;
    SHARE(doors.channels);
    SHARE(doors.event);
    SHARE(doors.dozing);
    SHARE(messages[1]);
}

static void start_leader(void)
{
    start();
    SHARE(control.asleep);
    SHARE(messages[0]);
}

/* The leader has been rung for another message, which it has not seen; for the next one it is rung. */
static void start_rung(void)
{
    start();
    messages[0] = 1;
    control.asleep = 1;
    doors.channels = sender.self + 1;
}

static bool is_there(void *message)
{
    return __atomic_load_n((uint64_t *)message, __ATOMIC_ACQUIRE);
}

/* As progress_sleep and its callers do, and after its own message as the progress thread does. */
static void lead(void)
{
    while (!is_there(&messages[0]) || !is_there(&messages[1])) {
        if (channel_notes_due(&receiver) != DUE_NOT && channel_notes_poll(&receiver.lanes[LANE_LEADER]))
            continue;
        atomic_store(&control.asleep, 1);
        atomic_thread_fence(memory_order_seq_cst);
        if (channel_notes_due(&receiver) == DUE_NOT)
            il_await((void *)(intptr_t)DOOR);
        atomic_store(&control.asleep, 0);
    }
    if (channel_notes_due(&receiver) != DUE_NOT)
        channel_notes_poll(&receiver.lanes[LANE_LEADER]);
}

static void lead_beside(void)
{
    while (!is_there(&messages[1]))
        if (channel_notes_due(&receiver) == DUE_NOT || !channel_notes_poll(&receiver.lanes[LANE_LEADER]))
            il_await((void *)(intptr_t)DOOR);
    if (channel_notes_due(&receiver) != DUE_NOT)
        channel_notes_poll(&receiver.lanes[LANE_LEADER]);
}

static void doze(void)
{
    while (!is_there(&messages[1]))
        doorbell_doze(&receiver, is_there, &messages[1], ACP_FOREVER);
}

/* As channel_publish does for a receiver that waits. */
static void bring(uint32_t one)
{
    __atomic_store_n(&messages[one], 1, __ATOMIC_SEQ_CST);
    peer_channel_changed(&sender, &receivers);
}

static void bring_both(void)
{
    bring(0);
    bring(1);
}

static void bring_second(void)
{
    bring(1);
}

static void die_before_the_ring(void)
{
    atomic_exchange(&doors.channels, sender.self + 2);
}

static const struct scenario stream = {
    .name = "two messages for the leader",
    .start = start_leader,
    .threads = {lead, bring_both},
};

static const struct scenario dozing = {
    .name = "the second message is for a thread that dozes",
    .start = start_rung,
    .threads = {lead_beside, doze, bring_second},
};

static const struct scenario another_dies = {
    .name = "another process dies between its mark and its ring",
    .start = start_leader,
    .threads = {lead, bring_both, die_before_the_ring},
};

int main(void)
{
    explore(&stream);
    explore(&another_dies);
    explore(&dozing);
    return 0;
}
