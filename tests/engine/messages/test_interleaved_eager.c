/* Eager slots: a message is taken once, from its slot or from the mailbox, whoever closes the slots or has it
 * recalled meanwhile. */
#include "interleaver/interleaved.h"

#include "messages/mailbox.h"
#include "messages/eager_slot.c"

#define CONTEXT 4u
#define SENDER 1u
#define TEXT 0x1122334455667788u

static acp_engine receiver, sender;
static struct peer own, receivers;
static struct heap_head head;
static struct heap heap = {.head = &head};
static struct mailbox *const box = (struct mailbox *)(void *)head.root;
static struct eager_slot *const slot = &((struct mailbox *)(void *)head.root)->eager.slots[SENDER * EAGER_EACH];
static _Atomic uint32_t brought, recalled; /* to the mailbox: by the receiver, or the sender */
static _Atomic uint32_t taken;

struct heap *mailbox_heap(acp_engine *e, struct peer *p)
{
    (void)e;
    (void)p;
    return &heap;
}

bool mailbox_context_ended(const struct mailbox *box, uint64_t context)
{
    (void)box;
    (void)context;
    return true;
}

int match_arrive(acp_lane *lane, struct peer *to, const acp_envelope *m, const void *data, bool whole, uint32_t by,
                 struct landing *landing)
{
    uint64_t text;
    (void)to;
    (void)whole;
    (void)by;
    (void)landing;
    memcpy(&text, data, sizeof text);
    MUST(m->context == CONTEXT && m->source == SENDER && m->size == sizeof text && m->note == 9 && text == TEXT);
    atomic_fetch_add(lane->engine == &receiver ? &brought : &recalled, 1);
    return ACP_OK;
}

static void start(void)
{
    memset(&box->eager, 0, sizeof box->eager);
    memset(receivers.mail.eager_stuck, 0, sizeof receivers.mail.eager_stuck);
    brought = recalled = taken = 0;
    receiver.job.own = &own;
    receiver.lanes[LANE_CALLER].engine = &receiver;
    sender.lanes[LANE_CALLER].engine = &sender;
    sender.rank = SENDER;
    SHARE(slot->context);
    SHARE(slot->source);
    SHARE_PLAIN(slot->note);
    SHARE_PLAIN(slot->size);
    il_share(slot->data, 8, "slot->data", true);
    SHARE(slot->state);
    SHARE(box->eager.closed);
    SHARE(brought);
    SHARE(recalled);
    SHARE(taken);
}

static void put(void)
{
    const uint64_t text = TEXT;
    const acp_envelope m = {.context = CONTEXT, .source = SENDER, .note = 9, .size = sizeof text};
    if (!eager_slot_put(&sender, &receivers, &m, &text))
        atomic_fetch_add(&recalled, 1);
}

static void put_and_recall(void)
{
    put();
    eager_slot_recall(&sender.lanes[LANE_CALLER], &receivers, CONTEXT);
}

static bool take(void)
{
    uint64_t text = 0;
    acp_envelope m = {.context = CONTEXT, .source = SENDER, .size = sizeof text};
    if (!eager_slot_take(&receiver, &m, &text))
        return false;
    MUST(m.size == sizeof text && m.note == 9 && text == TEXT);
    atomic_fetch_add(&taken, 1);
    return true;
}

/* As who is to sleep does: from then on it looks at its mailbox only. */
static void close_and_clear(void)
{
    bool moved;
    eager_slot_close(&receiver);
    MUST(eager_slot_flush(&receiver.lanes[LANE_CALLER], &moved) == ACP_OK);
}

static void take_or_close(void)
{
    if (!take())
        close_and_clear();
}

static void take_once(void)
{
    take();
}

static void forget(void)
{
    eager_slot_purge(&receiver);
}

static void check_once(void)
{
    uint32_t all = brought + recalled + taken;
    MUST(all == 1 && slot->state % EAGER_STATES == EAGER_EMPTY);
}

static void check_at_most_once(void)
{
    MUST(brought + recalled + taken <= 1 && slot->state % EAGER_STATES != EAGER_CLAIMED);
}

static const struct scenario closing = {
    .name = "slots are closed", .start = start, .threads = {put, close_and_clear}, .check = check_once};
static const struct scenario taking = {
    .name = "slots are closed by who takes", .start = start, .threads = {put, take_or_close}, .check = check_once};
static const struct scenario both = {
    .name = "two threads look, one is to sleep", .start = start, .threads = {put, close_and_clear, take_once},
    .check = check_once};
static const struct scenario recalling = {
    .name = "a message is recalled", .start = start, .threads = {put_and_recall, close_and_clear}, .check = check_once};
static const struct scenario recalling_what_is_taken = {
    .name = "a message is taken and recalled", .start = start, .threads = {put_and_recall, take_once},
    .check = check_once};
static const struct scenario forgetting = {
    .name = "a context has ended", .start = start, .threads = {put, take_once, forget}, .check = check_at_most_once};

int main(void)
{
    explore(&closing);
    explore(&taking);
    explore(&both);
    explore(&recalling);
    explore(&recalling_what_is_taken);
    explore(&forgetting);
    return 0;
}
