/* Sections: who reads without the lock sees a change as a whole or not at all, and of two that change something
 * none is lost. */
#include "interleaver/interleaved.h"

#include "base/word.h"
#include "memory/transaction.c"

static acp_engine engine;
static acp_lane lane;
static struct heap_head head;
static struct heap heap = {.head = &head};
static struct section section;
static uint64_t pair[2];

int transaction_lock_wait(acp_lane *l, struct section *s, int64_t patience_ns)
{
    (void)l;
    (void)patience_ns;
    return il_lock(&s->lock);
}

bool transaction_lock_try(acp_lane *l, struct section *s)
{
    (void)l;
    return !il_trylock(&s->lock);
}

void transaction_lock_release(struct section *s)
{
    il_unlock(&s->lock);
}

static void start(void)
{
    memset(&section, 0, sizeof section);
    memset(pair, 0, sizeof pair);
    lane.engine = &engine;
    heap.base = (unsigned char *)pair;
    heap.span = sizeof pair;
    SHARE(section.version);
    SHARE(section.state);
    SHARE(section.holder);
    SHARE(section.count);
    SHARE_PLAIN(section.journal[0].at);
    SHARE_PLAIN(section.journal[0].old);
    SHARE(section.moving.kind);
    SHARE(pair[0]);
    SHARE(pair[1]);
}

static void enter_section(struct hold *hold)
{
    MUST(transaction_enter(hold, &lane, &section, &heap, ACP_FOREVER) == ACP_OK);
}

/* What is changed in place, without the journal. */
static void write_pair(void)
{
    struct hold hold;
    const uint64_t values[2] = {7, 7};
    enter_section(&hold);
    transaction_begin(&hold);
    words_in(pair, values, sizeof values);
    transaction_commit(&hold);
    transaction_leave(&hold);
}

static void write_pair_openly(void)
{
    struct hold hold;
    const uint64_t values[2] = {7, 7};
    enter_section(&hold);
    transaction_open(&hold);
    words_in(pair, values, sizeof values);
    transaction_close(&hold);
    transaction_leave(&hold);
}

static void read_pair(void)
{
    uint64_t seen[2];
    uint64_t version = transaction_version(&section);
    words_out(seen, pair, sizeof seen);
    if (transaction_unchanged(&section, version))
        MUST(seen[0] == seen[1]);
}

static void add(void)
{
    struct hold hold;
    enter_section(&hold);
    transaction_begin(&hold);
    transaction_set(&hold, &pair[0], word_load(&pair[0]) + 1);
    transaction_commit(&hold);
    transaction_leave(&hold);
}

static void check_sum(void)
{
    MUST(pair[0] == 2 && section.version == 4);
}

static const struct scenario reading = {
    .name = "a change is read", .start = start, .threads = {write_pair, read_pair}};
static const struct scenario reading_open = {
    .name = "an open change is read", .start = start, .threads = {write_pair_openly, read_pair}};
static const struct scenario adding = {
    .name = "two add", .start = start, .threads = {add, add}, .check = check_sum};

int main(void)
{
    explore(&reading);
    explore(&reading_open);
    explore(&adding);
    return 0;
}
