/* Of several changes of channels of a process only the first rings its doorbell: no order of the steps of its leader, of
 * a thread that dozes beside it, and of those that change channels leaves one of them asleep. Neither does one of a thread
 * that publishes without a fence and one that asks to be woken; and no send that goes on beside the program is left by a
 * thread that gives its turn back so. */
#include "interleaver/interleaved.h"

#define write(fd, bytes, size) ((void)(bytes), il_ring((void *)(intptr_t)(fd)), (ssize_t)(size))
#include "channels/channel_notes.c"
#include "core/membarrier.c"
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

static _Atomic uint32_t waits;
static _Atomic uint64_t turn, queue;
static bool served;

static void start_plain(void)
{
    start();
    waits = 0;
    turn = 1;
    queue = served = 0;
    sender.fence.fenced = receiver.fence.can = true;
    sender.control = &control;
    SHARE(messages[0]);
    SHARE(waits);
    SHARE(turn);
    SHARE(queue);
    il.actors[1].registered = true;
}

/* As end_is_ready_or_asks. */
static void ask_and_sleep(void)
{
    if (is_there(&messages[0]))
        return;
    atomic_fetch_add(&waits, 1);
    membarrier_wait(&receiver);
    while (!is_there(&messages[0]))
        il_await((void *)(intptr_t)DOOR);
}

/* As channel_publish, and acp_channel_release. */
static void publish(void)
{
    __atomic_store_n(&messages[0], 1, __ATOMIC_RELEASE);
    membarrier_look(&sender, &control);
    if (atomic_load(&waits))
        il_ring((void *)(intptr_t)DOOR);
}

static bool take_turn(void)
{
    uint64_t none = 0;
    return atomic_compare_exchange_strong(&turn, &none, 1);
}

static void serve(void)
{
    served |= atomic_load(&queue);
    atomic_store(&queue, 0);
}

/* As acp_channel_begin. */
static void begin_beside(void)
{
    atomic_store(&queue, 1);
    if (!take_turn()) {
        membarrier_wait(&receiver);
        if (!take_turn())
            return;
    }
    serve();
    atomic_store(&turn, 0);
}

/* As acp_channel_give_turn. */
static void give_turn(void)
{
    atomic_store_explicit(&turn, 0, memory_order_release);
    membarrier_look(&sender, &control);
    if (atomic_load(&queue) && take_turn())
        serve();
}

static void check_served(void)
{
    MUST(served);
}

static const struct scenario plain = {
    .name = "a message is published without a fence",
    .start = start_plain,
    .threads = {ask_and_sleep, publish},
};

static const struct scenario beside = {
    .name = "a turn is given back without a fence",
    .start = start_plain,
    .threads = {begin_beside, give_turn},
    .check = check_served,
};

int main(void)
{
    explore(&plain);
    explore(&beside);
    explore(&stream);
    explore(&another_dies);
    explore(&dozing);
    return 0;
}
