/* Pair rings: a message is taken once, from its ring or from the mailbox, whichever side posts a receive or brings what
 * is in the ring meanwhile; and its lines are not filled again before it is copied. */
#include "interleaver/interleaved.h"

#include "core/state/peer.h"
#include "messages/mailbox.h"

void transaction_fault_point(void) {}

/* Others may go on before bytes are copied. */
static void *copy_as_step(void *to, const void *from, size_t size)
{
    il_step();
    il_goes_on();
    return memcpy(to, from, size);
}
#define memcpy copy_as_step
#include "messages/pair_ring.c"
#include "messages/pair_ring_deliver.c"
#undef memcpy

#define SENDER 1u
#define TEXT 0x1122334455667788u
#define LATER 0x8877665544332211u

static acp_engine receiver, sender;
static struct peer own, receivers;
static struct control control;
static _Alignas(64) unsigned char memory[(1u << 20)];
static struct heap_head *const head = (struct heap_head *)(void *)memory;
static struct heap heap = {.head = (struct heap_head *)(void *)memory, .base = memory, .span = sizeof memory};
static struct mailbox *const box = (struct mailbox *)(void *)((struct heap_head *)(void *)memory)->root;
static struct pair_ring *const ring = &((struct mailbox *)(void *)((struct heap_head *)(void *)memory)->root)->rings[MAIL_USERS].rings[SENDER];
static struct ring_line *lines;
static pthread_mutex_t section; /* of the mailbox */
static uint32_t brought, mailed, taken; /* each thread counts what it has seen to have happened */

struct heap *mailbox_heap(acp_engine *e, struct peer *p)
{
    (void)e;
    (void)p;
    return &heap;
}

int transaction_enter(struct hold *hold, acp_lane *lane, struct section *s, struct heap *h, int64_t patience_ns)
{
    (void)s;
    (void)patience_ns;
    *hold = (struct hold){.lane = lane, .heap = h};
    pthread_mutex_lock(&section);
    return ACP_OK;
}

void transaction_leave(struct hold *hold)
{
    (void)hold;
    pthread_mutex_unlock(&section);
}

bool newcomers_find(acp_engine *e, uint64_t slot)
{
    (void)e;
    return slot == SENDER;
}

int match_place(struct hold *hold, struct peer *to, const acp_envelope *m, const void *data, uint64_t *word,
                uint64_t value)
{
    uint64_t text;
    (void)hold;
    (void)to;
    memcpy(&text, data, sizeof text);
    MUST(m->source == SENDER && m->size == sizeof text && m->note == 9 && text == TEXT);
    brought++;
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
    return ACP_OK;
}

static const acp_envelope want = {.source = SENDER, .tag = 3, .note = 9, .size = 8};

static void start(void)
{
    memset(box, 0, sizeof *box);
    heap.first = sizeof *head;
    lines = (struct ring_line *)(void *)(memory + (sizeof memory >> 1));
    memset(lines, 0, RING_LINES * sizeof *lines);
    ring->owner = SENDER + 1;
    ring->lines = sizeof memory >> 1;
    box->rings[MAIL_USERS].owned = 1u << SENDER;
    box->free = 64;
    lines[0].tag = 3;
    lines[0].note = 9;
    brought = mailed = taken = 0;
    own.memory.heap = receivers.memory.heap = &heap;
    receivers.shm.control = &control;
    receiver.job.own = &own;
    receiver.lanes[LANE_CALLER].engine = receiver.lanes[LANE_LEADER].engine = &receiver;
    sender.lanes[LANE_CALLER].engine = &sender;
    sender.rank = SENDER;
    sender.progress.crowded = true; /* it waits for no room */
    receivers.mail.rings[MAIL_USERS] = (struct ring_sender){.era = 1, .ring = ring, .lines = lines};
    SHARE(ring->taken);
    SHARE(ring->copying);
    SHARE(lines[0].stamp);
    il_share(lines[0].first, 8, "data", true);
    SHARE(box->posted[MAIL_USERS]);
}

static bool put_text(uint64_t text)
{
    return pair_ring_put(&sender.lanes[LANE_CALLER], &receivers, &want, &text);
}

/* As a send does it: what goes to the mailbox finds a receive there that is posted. */
static void put(void)
{
    if (put_text(TEXT))
        return;
    if (pair_ring_before(&sender, &receivers, MAIL_USERS))
        MUST(pair_ring_deliver_own(&sender.lanes[LANE_CALLER], &receivers, MAIL_USERS) == ACP_OK);
    mailed++;
}

static void put_and_bring(void)
{
    put();
    if (pair_ring_before(&sender, &receivers, MAIL_USERS))
        MUST(pair_ring_deliver_own(&sender.lanes[LANE_CALLER], &receivers, MAIL_USERS) == ACP_OK);
}

static bool take_one(uint64_t must)
{
    acp_short m;
    uint64_t text = 0;
    if (!acp_short_look(&receiver, &want, &m) || !acp_short_take(&m, &text))
        return false;
    MUST(m.envelope.size == sizeof text && m.envelope.note == 9 && text == must);
    taken++;
    return true;
}

static void take_once(void)
{
    take_one(TEXT);
}

static void clear(void)
{
    struct hold hold;
    transaction_enter(&hold, &receiver.lanes[LANE_LEADER], NULL, &heap, 0);
    MUST(pair_ring_deliver_all(&hold, MAIL_USERS, &want) == ACP_OK);
    transaction_leave(&hold);
}

/* As recv.c does it: then the receive sleeps, and only its mailbox wakes it. */
static void post(void)
{
    struct hold hold;
    transaction_enter(&hold, &receiver.lanes[LANE_CALLER], NULL, &heap, 0);
    MUST(pair_ring_deliver_all(&hold, MAIL_USERS, &want) == ACP_OK);
    __atomic_store_n(&box->posted[MAIL_USERS], 1, __ATOMIC_RELEASE);
    atomic_thread_fence(memory_order_seq_cst);
    MUST(pair_ring_deliver_all(&hold, MAIL_USERS, &want) == ACP_OK);
    transaction_leave(&hold);
}

static void take_or_post(void)
{
    if (!take_one(TEXT))
        post();
}

static void check_once(void)
{
    MUST(brought + mailed + taken == 1 && ring->copying == 0);
    MUST(ring->taken == pair_ring_sealed(receivers.mail.rings[MAIL_USERS].sent));
}

static void check_at_most_once(void)
{
    bool left = ring->taken == 0 && lines[0].stamp == (1 << 16 | 8);
    MUST(brought + mailed + taken + left == 1 && ring->copying == 0);
}

/* The ring is full: the next message belongs where the first one stands. */
static void start_full(void)
{
    start();
    lines[0] = (struct ring_line){.stamp = 1 << 16 | 8, .tag = 3, .note = 9};
    memcpy(lines[0].first, &(uint64_t){TEXT}, 8);
    receivers.mail.rings[MAIL_USERS].sent = RING_LINES;
}

static void put_behind(void)
{
    put_text(LATER);
}

static void check_full(void)
{
    MUST(brought + taken == 1);
}

static const struct scenario posting = {
    .name = "a receive is posted", .start = start, .threads = {put, post}, .check = check_once};
static const struct scenario taking = {
    .name = "a message is taken, or its receive posted", .start = start, .threads = {put, take_or_post},
    .check = check_once};
static const struct scenario clearing = {
    .name = "another thread clears the ring", .start = start, .threads = {put, take_once, clear},
    .check = check_at_most_once};
static const struct scenario bringing = {
    .name = "a sender brings its message", .start = start, .threads = {put_and_bring, take_once, post},
    .check = check_once};
static const struct scenario reusing = {
    .name = "lines are filled again", .start = start_full, .threads = {put_behind, take_once}, .check = check_full};
static const struct scenario reusing_cleared = {
    .name = "lines are filled again when they are brought", .start = start_full, .threads = {put_behind, clear},
    .check = check_full};

int main(void)
{
    explore(&posting);
    explore(&taking);
    explore(&clearing);
    explore(&bringing);
    explore(&reusing);
    explore(&reusing_cleared);
    return 0;
}
