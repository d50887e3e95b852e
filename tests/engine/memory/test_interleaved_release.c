/* Memory that is released while others use it: nobody is inside an operation on it when it is given to another,
 * whether they run the fences that others ask for, do not yet, or cannot. */
#include "interleaver/interleaved.h"

#include "core/upcalls.h"
#include "memory/translate.h"

#include "core/membarrier.c"
#include "memory/retire.c"

#define LINE 3u
#define REGION (STARTER_OFFSET + (1u << 20))

static acp_engine owner, user;
static acp_lane owners_lane;
static struct doors doors;
static struct control control;
static _Atomic uint32_t generation;
static uint64_t given, bytes; /* to another, who writes there what is its own */
static bool asks;             /* the owner can ask for fences */

int directory_find(const struct control *c, uint64_t offset, struct region *out)
{
    (void)c;
    (void)offset;
    *out = (struct region){.offset = REGION, .length = PAGE, .kind = SEGMENT_MEMORY};
    return ACP_OK;
}

int directory_replace(acp_engine *e, const struct region *old, const struct region *left, const struct region *right)
{
    (void)e;
    (void)old;
    (void)left;
    (void)right;
    atomic_fetch_add(&generation, 1);
    return ACP_OK;
}

bool peer_line_dead(acp_engine *e, struct doors *d, uint32_t line)
{
    (void)e;
    (void)d;
    (void)line;
    return false;
}

static void ends(acp_engine *e, const unsigned char *low, const unsigned char *high)
{
    (void)e;
    (void)low;
    (void)high;
}

void doorbell_kick(acp_engine *e)
{
    (void)e;
}

static const struct upcalls up = {.memory_ends = ends};

static void start(void)
{
    owner.up = &up;
    struct memory_state *m = &owner.memory;
    retirees_close(&owner);
    free(m->unpunched.at);
    memset(m, 0, sizeof *m);
    m->starter_size = PAGE;
    owner.doors = &doors;
    owner.control = &control;
    owner.fence.can = asks;
    owners_lane.engine = &owner;
    user.fence.fenced = user.fence.late = false;
    doors.lines[LINE].holder = 1;
    doors.lines[LINE].busy[0] = 0;
    generation = 5;
    given = bytes = 0;
    SHARE(doors.lines[LINE].busy[0]);
    SHARE(generation);
    SHARE(given);
    SHARE_PLAIN(bytes);
    SHARE(user.fence.fenced);
}

static void release(void)
{
    MUST(acp_segment_retire(&owners_lane, acp_ga(0, 0, REGION), 0, NULL) == ACP_OK);
    while (retire_step(&owner))
        il_relax();
    __atomic_store_n(&given, 1, __ATOMIC_RELAXED);
    MUST(il_settled(&bytes));
    bytes = 2;
}

static void use(bool fence)
{
    struct translation t = {.busy = doors.lines[LINE].busy, .generation = &generation, .live = 5, .fence = fence};
    if (!translate_enter(&t, ROLE_DST))
        return;
    MUST(!__atomic_load_n(&given, __ATOMIC_RELAXED));
    bytes = 1;
    translate_leave(&t, ROLE_DST);
}

static void use_with_fence(void)
{
    use(true);
}

/* As translate.c decides. */
static void use_from_the_start(void)
{
    let_in(&user);
    use(!user.fence.fenced);
}

static void check(void)
{
    MUST(given == 1 && bytes == 2);
}

static const struct scenario scenarios[] = {
    {.name = "who uses memory that is released fences", .start = start, .threads = {release, use_with_fence},
     .check = check},
    {.name = "it runs the fences of others", .start = start, .threads = {release, use_from_the_start}, .check = check},
};

int main(void)
{
    explore(&scenarios[0]);
    asks = true;
    explore(&scenarios[0]);
    explore(&scenarios[1]);
    return 0;
}
