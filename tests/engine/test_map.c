/* A stripe of a map against an array: what it finds, brings in batches and keeps when processes
 * that change it are killed, with elements in slots and in boxes.
 *
 * CRASHES=10000: so many processes; without it few enough for every day. */
#include "crash.h"
#include "hash.h"
#include "stripe.h"

#include <pthread.h>
#include <time.h>

#define KEYS 300u
#define FAR 200u /* stores before a death */

/* Shared by the test's processes, beside the memory that is tested. */
struct book {
    struct record record;
    uint64_t stripe; /* its block */
    uint64_t boxed;
};

enum kind { INSERT, ASSIGN, ADD, TAKE, ERASE, CLEAR, RESERVE, KINDS };

struct step {
    enum kind kind;
    uint64_t key, value;
};

static struct step step_of(uint64_t k)
{
    uint64_t state = k * 0x9e3779b97f4a7c15ull + 1;
    crash_random(&state);
    struct step s = {(enum kind)(crash_random(&state) % KINDS), crash_random(&state) % KEYS,
                     1 + crash_random(&state) % 5};
    if (s.kind >= CLEAR && k % 64)
        s.kind = k % 2 ? INSERT : ERASE;
    return s;
}

static void foresee(uint64_t model[KEYS], uint64_t k)
{
    struct step s = step_of(k);
    uint64_t *v = &model[s.key];
    if (s.kind == INSERT)
        *v = *v ? *v : s.value;
    else if (s.kind == ASSIGN)
        *v = s.value;
    else if (s.kind == ADD)
        *v += s.value;
    else if (s.kind == TAKE)
        *v = *v > s.value ? *v - s.value : 0;
    else if (s.kind == ERASE)
        *v = 0;
    else if (s.kind == CLEAR)
        memset(model, 0, KEYS * sizeof *model);
}

static struct shape shape_of(bool boxed)
{
    struct shape shape;
    CHECK(shape_make(&shape, boxed ? SIZE_ANY : 8, 8, 'Q', 1) == ACP_OK);
    return shape;
}

/* Keys of 8 bytes, or of many lengths. */
static struct element element_of(const struct shape *shape, unsigned char key[KEYS + 8],
                                 uint64_t number, const uint64_t *value)
{
    uint64_t size = shape->boxed ? 8 + number : 8;
    memset(key, (int)number, size);
    memcpy(key, &number, 8);
    return (struct element){.hash = hash_bytes(key, size), .key = key, .key_size = size,
                            .value = value, .value_size = 8};
}

static struct stripe *stripe_of(struct actor *a, const struct book *book)
{
    return (struct stripe *)(void *)(a->heap.base + book->stripe);
}

static void perform(struct actor *a, struct stripe *s, const struct shape *shape, uint64_t k)
{
    static const enum put_how hows[] = {PUT_INSERT, PUT_ASSIGN, PUT_ADD, PUT_TAKE};
    unsigned char key[KEYS + 8];
    struct step step = step_of(k);
    struct element e = element_of(shape, key, step.key, &step.value);
    struct answer answer = {.out = NULL};
    struct hold hold;
    bool more;
    CHECK(section_enter(&hold, a->lane, &s->section, &a->heap, ACP_FOREVER) == ACP_OK);
    if (step.kind == ERASE)
        CHECK(stripe_erase(&hold, shape, s, &e, 0, &answer) == ACP_OK);
    else if (step.kind == CLEAR)
        CHECK(stripe_clear(&hold, shape, s) == ACP_OK);
    else if (step.kind == RESERVE)
        CHECK(stripe_reserve(&hold, shape, s, step.key) == ACP_OK);
    else
        CHECK(stripe_put(&hold, shape, s, &e, hows[step.kind], &answer) == ACP_OK);
    CHECK(stripe_sweep(&hold, shape, s, &more) == ACP_OK);
    section_leave(&hold);
}

static bool agrees(struct actor *a, struct stripe *s, const struct shape *shape,
                   const uint64_t model[KEYS])
{
    unsigned char key[KEYS + 8];
    uint64_t value, count = 0, total = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        struct element e = element_of(shape, key, i, NULL);
        struct answer answer = {.out = (unsigned char *)&value, .room = 8};
        CHECK(stripe_find(a->lane, &a->heap, shape, s, &e, &answer, ACP_FOREVER) == ACP_OK);
        if ((answer.found == FOUND) != (model[i] != 0) || (model[i] && value != model[i]))
            return false;
        count += model[i] != 0;
        total += model[i];
    }
    return s->count == count && s->total == total;
}

/* Every element comes once, whatever the room. */
static void check_scan(struct actor *a, struct stripe *s, const struct shape *shape,
                       const uint64_t model[KEYS], uint64_t room)
{
    unsigned char out[4096];
    uint64_t seen[KEYS] = {0}, from = 0, size, count, next;
    do {
        CHECK(stripe_scan(a->lane, &a->heap, shape, s, from, out, room, &size, &count, &next,
                          ACP_FOREVER) == ACP_OK);
        CHECK(next != from || !next);
        const unsigned char *p = out;
        for (; count; count--) {
            uint64_t head[4] = {0, 0, 8, 8}, number, value;
            if (shape->boxed) {
                memcpy(head, p, sizeof head);
                p += sizeof head;
            }
            const unsigned char *k = shape->boxed ? p + 8 : p, *v = shape->boxed ? p : p + 8;
            memcpy(&number, k, 8);
            memcpy(&value, v, 8);
            p += 8 + 8 * words_of(head[2]);
            CHECK(number < KEYS && !seen[number]++ && value == model[number]);
        }
        CHECK(p == out + size);
        from = next;
    } while (next);
    for (uint64_t i = 0; i < KEYS; i++)
        CHECK(seen[i] == (model[i] != 0));
}

static void stripe_start(struct actor *a, struct book *book, bool boxed)
{
    book->boxed = boxed;
    book->record.begun = book->record.ended = 0;
    CHECK(heap_take(a->lane, &a->heap, sizeof(struct stripe), &book->stripe, ACP_FOREVER) == ACP_OK);
    memset(stripe_of(a, book), 0, sizeof(struct stripe));
    section_create(&stripe_of(a, book)->section);
}

static void alike(struct book *book, bool boxed)
{
    static uint64_t model[KEYS];
    struct actor a;
    struct shape shape = shape_of(boxed);
    int fd = crash_memory(48 << 20);
    memset(model, 0, sizeof model);
    actor_start(&a, fd);
    stripe_start(&a, book, boxed);
    struct stripe *s = stripe_of(&a, book);
    for (uint64_t k = 0; k < 30000; k++) {
        perform(&a, s, &shape, k);
        foresee(model, k);
        if (k % 300 == 0) {
            CHECK(agrees(&a, s, &shape, model));
            check_scan(&a, s, &shape, model, 4096);
            check_scan(&a, s, &shape, model, 600);
        }
    }
    struct hold hold;
    bool more = true;
    CHECK(section_enter(&hold, a.lane, &s->section, &a.heap, ACP_FOREVER) == ACP_OK);
    CHECK(stripe_clear(&hold, &shape, s) == ACP_OK);
    while (more)
        CHECK(stripe_sweep(&hold, &shape, s, &more) == ACP_OK);
    section_leave(&hold);
    CHECK(check_heap(&a) == 1); /* the stripe itself */
    actor_end(&a);
    close(fd);
}

/* What has no room is refused, and everything else stays as it was. */
static void refused_when_full(struct book *book, bool boxed)
{
    uint64_t model[KEYS] = {0}, value = 7, refused = 0, block;
    unsigned char key[KEYS + 8];
    struct actor a;
    struct hold hold;
    struct shape shape = shape_of(boxed);
    int fd = crash_memory(GRANULE);
    actor_start(&a, fd);
    stripe_start(&a, book, boxed);
    struct stripe *s = stripe_of(&a, book);
    for (uint64_t size = GRANULE; size > 4096; size /= 2)
        while (heap_take(a.lane, &a.heap, size, &block, ACP_FOREVER) == ACP_OK)
            ;
    for (uint64_t i = 0; i < KEYS; i++) {
        struct element e = element_of(&shape, key, i, &value);
        struct answer answer = {.out = NULL};
        CHECK(section_enter(&hold, a.lane, &s->section, &a.heap, ACP_FOREVER) == ACP_OK);
        int rc = stripe_put(&hold, &shape, s, &e, PUT_ADD, &answer);
        section_leave(&hold);
        CHECK(rc == ACP_OK || rc == ACP_E_FULL);
        model[i] = rc == ACP_OK ? value : 0;
        refused += rc != ACP_OK;
    }
    CHECK(refused && refused < KEYS && agrees(&a, s, &shape, model));
    check_scan(&a, s, &shape, model, 4096);
    check_heap(&a);
    actor_end(&a);
    close(fd);
}

/* What a clear has left over, whose process is gone, those give back who put elements in. */
static void cleared_by_those_who_come(struct book *book)
{
    const uint64_t value = 1;
    unsigned char key[KEYS + 8];
    struct actor a;
    struct hold hold;
    struct shape shape = shape_of(true);
    int fd = crash_memory(48 << 20);
    actor_start(&a, fd);
    stripe_start(&a, book, true);
    struct stripe *s = stripe_of(&a, book);
    CHECK(section_enter(&hold, a.lane, &s->section, &a.heap, ACP_FOREVER) == ACP_OK);
    for (uint64_t i = 0; i < KEYS; i++) {
        struct element e = element_of(&shape, key, i, &value);
        struct answer answer = {.out = NULL};
        CHECK(stripe_put(&hold, &shape, s, &e, PUT_INSERT, &answer) == ACP_OK);
    }
    CHECK(stripe_clear(&hold, &shape, s) == ACP_OK && s->dying);
    struct element e = element_of(&shape, key, 0, &value);
    struct answer answer = {.out = NULL};
    CHECK(stripe_put(&hold, &shape, s, &e, PUT_INSERT, &answer) == ACP_OK && !s->dying);
    section_leave(&hold);
    CHECK(check_heap(&a) == 3); /* the stripe, its table, the element */
    actor_end(&a);
    close(fd);
}

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

/* Threads that find, beside one that changes: what stays is always found, with its value. */
struct race {
    struct actor a;
    struct stripe *stripe;
    struct shape shape;
    _Atomic bool over;
};

static void *reader(void *argument)
{
    struct race *race = argument;
    acp_lane lane = {.engine = race->a.engine, .index = 3};
    unsigned char key[KEYS + 8];
    uint64_t value;
    for (uint64_t i = 0; !race->over; i++) {
        uint64_t number = i % (KEYS / 2);
        struct element e = element_of(&race->shape, key, number, NULL);
        struct answer answer = {.out = (unsigned char *)&value, .room = 8};
        CHECK(stripe_find(&lane, &race->a.heap, &race->shape, race->stripe, &e, &answer,
                          ACP_FOREVER) == ACP_OK);
        CHECK(answer.found == FOUND && value % 1000 == number);
    }
    return NULL;
}

static void put(struct race *race, uint64_t number, uint64_t value, bool erase)
{
    unsigned char key[KEYS + 8];
    struct hold hold;
    struct answer answer = {.out = NULL};
    struct element e = element_of(&race->shape, key, number, &value);
    struct stripe *s = race->stripe;
    CHECK(section_enter(&hold, race->a.lane, &s->section, &race->a.heap, ACP_FOREVER) == ACP_OK);
    CHECK((erase ? stripe_erase(&hold, &race->shape, s, &e, 0, &answer)
                 : stripe_put(&hold, &race->shape, s, &e, PUT_ASSIGN, &answer)) == ACP_OK);
    section_leave(&hold);
}

static void found_meanwhile(struct book *book)
{
    struct race race = {.shape = shape_of(false), .over = false};
    pthread_t threads[2];
    int fd = crash_memory(48 << 20);
    actor_start(&race.a, fd);
    stripe_start(&race.a, book, false);
    race.stripe = stripe_of(&race.a, book);
    for (uint64_t i = 0; i < KEYS / 2; i++)
        put(&race, i, 1000 + i, false);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, reader, &race) == 0);
    for (uint64_t k = 0; k < 40000; k++) {
        uint64_t i = k * 7 % KEYS;
        put(&race, i, 1000 * (1 + k % 9) + i, i >= KEYS / 2 && k % 2);
        if (k % 1000 == 0) { /* the table is built anew under the readers */
            struct hold hold;
            CHECK(section_enter(&hold, race.a.lane, &race.stripe->section, &race.a.heap,
                                ACP_FOREVER) == ACP_OK);
            CHECK(stripe_reserve(&hold, &race.shape, race.stripe, 200 + k) == ACP_OK);
            section_leave(&hold);
        }
    }
    race.over = true;
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    actor_end(&race.a);
    close(fd);
}

int main(void)
{
    uint64_t crashes = crashes_wanted(600);
    struct book *book = shared_memory(sizeof *book);
    alike(book, false);
    alike(book, true);
    refused_when_full(book, false);
    refused_when_full(book, true);
    cleared_by_those_who_come(book);
    killed(book, false, crashes / 2);
    killed(book, true, crashes / 2);
    counted_before_it_is_whole(book);
    found_meanwhile(book);
    return 0;
}
