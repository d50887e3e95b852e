/* What a stripe of a map keeps when processes that change it are killed, with elements in slots and in boxes.
 *
 * CRASHES=10000: so many processes; without it few enough for every day. */
#include "support/map_model.h"
#include "base/hash.h"
#include "containers/map_bucket.h"
#include "containers/map_find.h"
#include "containers/map_slots.h"
#include "containers/pickle_add.h"
#include "memory/transaction.h"

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
    CHECK(map_slots_look(&a->heap, &shape, s->slots, s->log, &t));
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
        CHECK(map_find_count(a.lane, &a.heap, s, &amounts, ACP_FOREVER) == ACP_OK);
        mend(&a, &s->section);
        CHECK(amounts.count == s->count && amounts.total == s->total && amounts.graves == s->graves);
        actor_end(&a);
        close(fd);
    }
}

/* Numbers as pickles: sums that stay in their box, and those that need a new one. */
#define TERMS 6u
#define SUM_MOST 256u

static const struct term {
    unsigned char bytes[32];
    uint64_t size;
} terms[TERMS] = {
    {"\x80\5K\1.", 5}, {"\x80\5K\1.", 5}, {"\x80\5\x95\4\0\0\0\0\0\0\0M\1\1.", 15},
    {"\x80\5\x8a\x14\1\2\3\4\5\6\7\1\2\3\4\5\6\7\1\2\3\4\5\6.", 25},
    {"\x80\5G\x3f\xe0\0\0\0\0\0\0.", 12}, {"\x80\5J\xff\xff\xff\xff.", 8},
};

static struct element term_of(uint64_t i)
{
    return (struct element){.hash = hash_bytes("key", 3), .key = "key", .key_size = 3,
                            .value = terms[i].bytes, .value_size = terms[i].size};
}

static void add_terms(struct actor *a, struct book *book, const struct shape *shape)
{
    for (uint64_t i = 0; i < TERMS; i++) {
        unsigned char out[SUM_MOST];
        struct answer answer = {.out = out, .room = sizeof out};
        struct element e = term_of(i);
        struct stripe *s = stripe_of(a, book);
        struct hold hold;
        CHECK(transaction_enter(&hold, a->lane, &s->section, &a->heap, ACP_FOREVER) == ACP_OK);
        CHECK(map_bucket_put(&hold, shape, s, &e, PUT_ADD, &answer) == ACP_OK);
        CHECK(answer.found == (i ? FOUND : FOUND_NOT));
        transaction_leave(&hold);
        book->record.ended = i + 1;
    }
}

/* Whoever is killed in a sum of objects has added all of its term, or nothing. */
static void added_whole_or_not(struct book *book)
{
    bool died = true;
    struct shape shape;
    unsigned char sums[TERMS][SUM_MOST];
    uint64_t sizes[TERMS], deaths = 0;
    CHECK(map_slots_shape(&shape, SIZE_ANY, SIZE_ANY, NUMBER_OBJECT, 0) == ACP_OK);
    memcpy(sums[0], terms[0].bytes, sizes[0] = terms[0].size);
    for (uint64_t i = 1; i < TERMS; i++)
        CHECK(pickle_add(sums[i - 1], sizes[i - 1], terms[i].bytes, terms[i].size, sums[i], SUM_MOST,
                         &sizes[i]) == FOUND);
    for (uint64_t fault = 1; died; fault++) {
        struct actor a;
        unsigned char value[SUM_MOST];
        struct answer answer = {.out = value, .room = sizeof value};
        struct element e = term_of(0);
        int fd = crash_memory(48 << 20);
        actor_start(&a, fd);
        stripe_start(&a, book, true);
        struct stripe *s = stripe_of(&a, book);
        pid_t child = child_start();
        if (!child) {
            struct actor there;
            actor_start(&there, fd);
            fault_left = fault;
            add_terms(&there, book, &shape);
            _exit(0);
        }
        died = was_killed(child);
        deaths += died;
        mend(&a, &s->section);
        CHECK(map_find_element(a.lane, &a.heap, &shape, s, &e, &answer, ACP_FOREVER) == ACP_OK);
        uint64_t done = book->record.ended; /* it may have died behind the change */
        if (done < TERMS && answer.found == FOUND && answer.size == sizes[done] &&
            memcmp(value, sums[done], sizes[done]) == 0)
            done++;
        CHECK((answer.found == FOUND) == (done > 0));
        CHECK(!done || (answer.size == sizes[done - 1] &&
                        memcmp(value, sums[done - 1], sizes[done - 1]) == 0));
        CHECK(s->count == (done > 0) && check_heap(&a) == 1 + (s->slots != 0) + s->count);
        actor_end(&a);
        close(fd);
    }
    CHECK(deaths > 10 * TERMS);
}

int main(void)
{
    uint64_t crashes = crashes_wanted(600);
    struct book *book = shared_memory(sizeof *book);
    killed(book, false, crashes / 2);
    killed(book, true, crashes / 2);
    counted_before_it_is_whole(book);
    added_whole_or_not(book);
    return 0;
}
