/* A note of a channel wakes its receiver only if something waits for one there: no order of the steps of its writer, of a
 * thread, a queue or closed ends that begin to wait, and of a leader beside it leaves the waiting one without it. */
#include "support/inbox_stage.h"

#include "channels/channel_attend.c"

static void start(void)
{
    inbox_start_empty();
    SHARE(control.attends);
    SHARE(arrived[0]);
    SHARE_PLAIN(doors.cells[0].message.kind);
    owner.channels = (struct channels_state){.lingers = true};
}

static void write_note(void)
{
    inbox_send(0, ACP_CHANNEL);
}

/* The note is about to be full in its cell. */
static void start_written(void)
{
    inbox_start();
    doors.cells[0].message = (struct message){.kind = ACP_CHANNEL, .id = 10};
    doors.tail = 1;
    SHARE(control.attends);
    SHARE(arrived[0]);
}

/* As shm_ring_send ends. */
static void end_note(void)
{
    atomic_store_explicit(&doors.cells[0].state, cell_state(0, CELL_FULL, 0), memory_order_release);
    wake(&senders[0], &owners[0], true);
}

static bool has_come(void)
{
    return __atomic_load_n(&arrived[0], __ATOMIC_SEQ_CST);
}

/* As a wait of the leader goes on. */
static void lead_until_there(void)
{
    bool interrupted;
    atomic_store(&control.asleep, 0);
    while (!has_come())
        if (!progress_poll(&owner))
            progress_sleep(&owner, ACP_FOREVER, &interrupted);
    progress_leader_release(&owner);
}

static void wait_and_lead(void)
{
    il_lock(&owner.progress.leader);
    channel_attend_begin(&owner);
    lead_until_there();
    channel_attend_end(&owner);
}

/* The timer has woken the leader. */
static void linger(void)
{
    il_lock(&owner.progress.leader);
    channel_attend_tick(&owner);
    lead_until_there();
}

static void wait_beside(void)
{
    channel_attend_begin(&owner);
    while (!has_come())
        il_await((void *)(intptr_t)EVENT);
    channel_attend_end(&owner);
    il_ring((void *)(intptr_t)DOOR); /* the leader ends, too */
}

/* As a thread that waits for another thing, or the progress thread: what comes without a ring it may leave. */
static void lead_for_others(void)
{
    il_lock(&owner.progress.leader);
    lead_until_there();
}

static void lead_when_rung(void)
{
    while (!has_come()) {
        il_await((void *)(intptr_t)DOOR);
        if (!progress_leader_try(&owner))
            continue;
        progress_poll(&owner);
        progress_leader_release(&owner);
    }
}

/* `connected` and `poll`, asked again and again. */
static void look_now_and_then(void)
{
    while (!has_come()) {
        channel_attend_now(&owner);
        il_relax();
    }
    il_ring((void *)(intptr_t)DOOR);
}

static const struct scenario leads = {
    .name = "a thread waits for a note, and leads",
    .start = start,
    .threads = {wait_and_lead, write_note},
};

static const struct scenario lingers = {
    .name = "a closed end waits for a note",
    .start = start,
    .threads = {linger, write_note},
};

static const struct scenario beside_leader = {
    .name = "a thread waits for a note beside one that leads",
    .start = start_written,
    .threads = {lead_for_others, wait_beside, end_note},
};

static const struct scenario beside_progress = {
    .name = "a thread waits for a note beside the progress thread",
    .start = start_written,
    .threads = {lead_when_rung, wait_beside, end_note},
};

static const struct scenario looks = {
    .name = "a thread looks for a note beside one that leads",
    .start = start_written,
    .threads = {lead_for_others, look_now_and_then, end_note},
};

int main(void)
{
    inbox_create();
    explore(&leads);
    explore(&lingers);
    explore(&beside_leader);
    explore(&beside_progress);
    explore(&looks);
    return 0;
}
