/* A directory is read while its owner changes it: a region that stays is found, wherever its entry moves. */
#include "interleaver/interleaved.h"

#include "memory/directory.c"

#define AT(i) (100 * (uint64_t)(i) + 100)

static _Alignas(4096) unsigned char page[CONTROL_SIZE];
static struct control *const control = (struct control *)(void *)page;
static acp_engine engine;

/* Regions 0 and 2 are there; the entry of region 1 has what it will have but for its generation. */
static void start(void)
{
    static const uint64_t offsets[] = {AT(0), AT(2), AT(1)};
    struct memory_state *m = &engine.memory;
    engine.control = control;
    m->order = (_Atomic uint32_t *)(void *)(page + ORDER_OFFSET);
    m->entries = (struct entry *)(void *)(page + ENTRIES_OFFSET);
    m->slots_touched = 2;
    control->directory_count = 2;
    control->directory_version = 0;
    for (uint32_t i = 0; i < 3; i++) {
        m->order[i] = i < 2 ? i : 0;
        m->entries[i].offset = offsets[i];
        m->entries[i].length = 50;
        m->entries[i].kind = SEGMENT_MEMORY;
        m->entries[i].generation = i < 2;
    }
    SHARE(control->directory_version);
    SHARE(control->directory_count);
    for (uint32_t i = 0; i < 3; i++)
        SHARE(m->order[i]);
    SHARE(m->entries[2].generation);
}

static void insert(void)
{
    const struct region between = {.offset = AT(1), .length = 50, .kind = SEGMENT_MEMORY};
    MUST(directory_publish(&engine, &between) == ACP_OK);
}

static void find(void)
{
    struct region found;
    MUST(directory_find(control, AT(2) + 7, &found) == ACP_OK && found.offset == AT(2));
}

static void check(void)
{
    const _Atomic uint32_t *order = engine.memory.order;
    MUST(control->directory_count == 3 && order[0] == 0 && order[1] == 2 && order[2] == 1);
}

static const struct scenario inserting = {
    .name = "a region comes before another", .start = start, .threads = {insert, find}, .check = check};

int main(void)
{
    explore(&inserting);
    return 0;
}
