/* A thread that finds an operation below the watermark has its bytes, which another thread has written. */
#include "interleaver/interleaved.h"

#include "operations/completion.c"
#include "operations/op_table.c"

static acp_engine engine;
static acp_lane lane;
static struct op table[OPS];
static uint64_t bytes;

static void start(void)
{
    lane.engine = &engine;
    engine.ops.table = table;
    engine.ops.last = 2;
    engine.ops.watermark = 0;
    table[1].state = OP_RUNNING;
    bytes = 0;
    SHARE(engine.ops.watermark);
    SHARE(bytes);
}

static void finish(void)
{
    __atomic_store_n(&bytes, 7, __ATOMIC_RELAXED);
    table[1].state = OP_DONE;
    watermark_advance(&lane);
}

static void look(void)
{
    if (!acp_running(&engine, 2))
        MUST(__atomic_load_n(&bytes, __ATOMIC_RELAXED) == 7);
}

static void check(void)
{
    MUST(engine.ops.watermark == 2 && bytes == 7);
}

static const struct scenario finishing = {
    .name = "an operation ends", .start = start, .threads = {finish, look}, .check = check};

int main(void)
{
    explore(&finishing);
    return 0;
}
