/* What a stripe of a map keeps when processes that change it are killed, with elements in slots and in boxes.
 *
 * CRASHES=10000: so many processes; without it few enough for every day. */
#include "map_model.h"

#define FAR 200u /* stores before a death */

static void act(struct actor *a, struct record *record, uint64_t k)
{
    const struct book *book = (const struct book *)record;
    struct shape shape = shape_of(book->boxed);
    perform(a, stripe_of(a, book), &shape, k - 1);
}

static void mend_stripe(struct actor *a, struct record *record)
{
    mend(a, &stripe_of(a, (const struct book *)record)->section);
}

static const struct roles roles = {act, mend_stripe, 100, 3000000};

/* Blocks: the stripe, its table, and a box each. */
static void check_blocks(struct actor *a, const struct stripe *s)
{
    uint64_t boxes = 0;
    struct shape shape = shape_of(true);
    struct slots t;
    if (s->dying)
        for (uint64_t i = s->dying_at; i < s->dying_end; i++)
            boxes += *((uint64_t *)(void *)(a->heap.base + s->dying) + 2 * i) > SLOT_GRAVE;
    CHECK(slots_look(&a->heap, &shape, s->slots, s->log, &t));
    CHECK(check_heap(a) == 1 + (s->slots != 0) + (s->dying != 0) + s->count + boxes);
}

static void killed(struct book *book, bool boxed, uint64_t crashes)
{
    static uint64_t model[KEYS];
    struct actor a;
    struct shape shape = shape_of(boxed);
    int fd = crash_memory(48 << 20);
    uint64_t state = 5, done = 0, deaths = 0;
    memset(model, 0, sizeof model);
    actor_start(&a, fd);
    stripe_start(&a, book, boxed);
    struct stripe *s = stripe_of(&a, book);
    for (uint64_t i = 0; i < crashes; i++) {
        deaths += worker_dies(fd, &roles, &book->record, i, FAR, 3, &state);
        for (uint64_t more = crash_random(&state) % 3; more; more--)
            mender(fd, &roles, &book->record, 1 + crash_random(&state) % 40);
        mend(&a, &s->section);
        for (; done < book->record.ended; done++)
            foresee(model, done);
        if (book->record.begun > done && !agrees(&a, s, &shape, model)) {
            foresee(model, done++);
            book->record.ended = done;
        }
        CHECK(agrees(&a, s, &shape, model));
        if (boxed)
            check_blocks(&a, s);
        else
            CHECK(check_heap(&a) == 1 + (s->slots != 0));
    }
    CHECK(deaths > crashes / 2);
    actor_end(&a);
    close(fd);
}

/* A reader does not count what will not have happened when the change that somebody died in is whole. */
static void counted_before_it_is_whole(struct book *book)
{
    bool died = true;
    struct shape shape = shape_of(false);
    for (uint64_t fault = 1, k = 0; died; fault++) {
        struct actor a;
        struct amounts amounts;
        int fd = crash_memory(48 << 20);
        actor_start(&a, fd);
        stripe_start(&a, book, false);
        struct stripe *s = stripe_of(&a, book);
        while (s->count < KEYS / 2)
            perform(&a, s, &shape, k++);
        pid_t child = child_start();
        if (!child) {
            struct actor there;
            actor_start(&there, fd);
            fault_left = fault;
            for (uint64_t i = 0; i < 8; i++)
                perform(&there, stripe_of(&there, book), &shape, k + i);
            _exit(0);
        }
        died = was_killed(child);
        CHECK(stripe_count(a.lane, &a.heap, s, &amounts, ACP_FOREVER) == ACP_OK);
        mend(&a, &s->section);
        CHECK(amounts.count == s->count && amounts.total == s->total && amounts.graves == s->graves);
        actor_end(&a);
        close(fd);
    }
}

int main(void)
{
    uint64_t crashes = crashes_wanted(600);
    struct book *book = shared_memory(sizeof *book);
    killed(book, false, crashes / 2);
    killed(book, true, crashes / 2);
    counted_before_it_is_whole(book);
    return 0;
}
