/* A stripe of a map against an array: what it finds, brings in batches, refuses, and shows to those who read
 * while it changes, with elements in slots and in boxes. */
#include "support/map_model.h"
#include "containers/map_bucket.h"
#include "containers/map_find.h"
#include "containers/map_slots.h"
#include "containers/pickle_add.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <pthread.h>

#define LONG_WORDS (3 * PAGE / 8)

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
    CHECK(transaction_enter(&hold, a.lane, &s->section, &a.heap, ACP_FOREVER) == ACP_OK);
    CHECK(map_slots_clear(&hold, &shape, s) == ACP_OK);
    while (more)
        CHECK(map_slots_sweep(&hold, &shape, s, &more) == ACP_OK);
    transaction_leave(&hold);
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
        CHECK(transaction_enter(&hold, a.lane, &s->section, &a.heap, ACP_FOREVER) == ACP_OK);
        int rc = map_bucket_put(&hold, &shape, s, &e, PUT_ADD, &answer);
        transaction_leave(&hold);
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

static uint64_t put_count(struct actor *a, struct stripe *s, uint64_t number, uint64_t count, enum put_how how)
{
    unsigned char key[KEYS + 8];
    struct shape shape = shape_of(false);
    struct element e = element_of(&shape, key, number, &count);
    struct answer answer = {.out = NULL};
    struct hold hold;
    CHECK(transaction_enter(&hold, a->lane, &s->section, &a->heap, ACP_FOREVER) == ACP_OK);
    int rc = map_bucket_put(&hold, &shape, s, &e, how, &answer);
    transaction_leave(&hold);
    CHECK(rc == ACP_OK || rc == ACP_E_OVERFLOW);
    return rc == ACP_OK ? s->total : 0;
}

/* All counts of a stripe have room in one word: one that is replaced counts no more, one that is added to does. */
static void counts_have_room_in_a_word(struct book *book)
{
    const uint64_t most = UINT64_MAX - 5;
    struct actor a;
    int fd = crash_memory(48 << 20);
    actor_start(&a, fd);
    stripe_start(&a, book, false);
    struct stripe *s = stripe_of(&a, book);
    CHECK(put_count(&a, s, 0, most, PUT_ADD) == most && put_count(&a, s, 1, 5, PUT_ADD) == UINT64_MAX);
    CHECK(!put_count(&a, s, 0, 1, PUT_ADD) && !put_count(&a, s, 2, 1, PUT_INSERT));
    CHECK(put_count(&a, s, 0, most, PUT_ASSIGN) == UINT64_MAX && !put_count(&a, s, 0, most + 1, PUT_ASSIGN));
    CHECK(put_count(&a, s, 1, 4, PUT_ASSIGN) == UINT64_MAX - 1 && put_count(&a, s, 0, 1, PUT_ADD) == UINT64_MAX);
    actor_end(&a);
    close(fd);
}

/* A box may be the last of the heap's memory. */
static void boxes_end_where_memory_does(void)
{
    uint64_t memory[16] = {0};
    struct heap heap = {.base = (unsigned char *)memory, .span = sizeof memory};
    struct element e;
    struct box *box = (struct box *)(void *)&memory[10];
    *box = (struct box){.stamp = 1, .key_size = 9, .value_size = 8}; /* three words, and three behind them */
    CHECK(map_slots_read_box(&heap, 80, &e));
    CHECK((const uint64_t *)e.value == &memory[13] && (const uint64_t *)e.key == &memory[14]);
    box->value_size = 9;
    CHECK(!map_slots_read_box(&heap, 80, &e));
    CHECK(!map_slots_read_box(&heap, 81, &e) && !map_slots_read_box(&heap, sizeof memory, &e));
}

/* Nothing behind the bytes of a pickle is read, whatever they are, and nothing behind the room written. */
static void sums_of_anything(void)
{
    static const unsigned char numbers[][20] = {
        "\x80\5K\1.", "\x80\5\x95\4\0\0\0\0\0\0\0M\1\1.", "\x80\5\x8a\x9\1\2\3\4\5\6\7\x8\x9.",
        "\x80\5\x8b\4\0\0\0\1\2\3\4.", "\x80\5G\x3f\xe0\0\0\0\0\0\0.", "J\1\2\3\4.", "\x80\5\x88.",
    };
    static const uint64_t sizes[] = {5, 15, 14, 12, 12, 6, 4};
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t size = 0; size <= sizes[i]; size++)
            for (uint64_t change = 0; change <= 256 * size; change++) {
                uint64_t room = (size + change) % 30, needed = 0;
                unsigned char *bytes = malloc(size + 1), *p = bytes + 1; /* at an odd place as well */
                unsigned char *sum = malloc(room + 1);
                CHECK(bytes && sum);
                memcpy(p, numbers[i], size);
                if (change < 256 * size)
                    p[change / 256] = (unsigned char)change;
                uint64_t found = pickle_add(p, size, numbers[1], sizes[1], sum, room, &needed);
                CHECK(found == FOUND || found == FOUND_OTHER || found == FOUND_LARGE);
                CHECK(found != FOUND || (needed <= room && sum[needed - 1] == '.'));
                CHECK(found != FOUND_LARGE || needed > room);
                CHECK(size < sizes[i] || change < 256 * size || found != FOUND_OTHER);
                free(bytes);
                free(sum);
            }
}

/* A long int whose digits are all zero but for those from `at` on, as a pickle; returns its size. */
static uint64_t pickle_long(unsigned char *p, uint32_t digits, uint32_t at, uint64_t value)
{
    const unsigned char head[] = {0x80, 5, 0x8b};
    memcpy(p, head, 3);
    memcpy(p + 3, &digits, 4);
    memset(p + 7, 0, digits);
    memcpy(p + 7 + at, &value, digits - at < 8 ? digits - at : 8);
    p[7 + digits] = '.';
    return 8 + digits;
}

static double sum_real(const unsigned char *p, uint64_t size)
{
    static const unsigned char nought[] = "\x80\5G\0\0\0\0\0\0\0\0.";
    unsigned char sum[12];
    uint64_t needed, word;
    double value;
    CHECK(pickle_add(p, size, nought, 12, sum, sizeof sum, &needed) == FOUND && needed == 12);
    memcpy(&word, sum + 3, 8);
    word = __builtin_bswap64(word);
    memcpy(&value, &word, 8);
    return value;
}

/* To the even one of two doubles that are as near, unless a digit further down decides. */
static void long_ints_are_rounded(void)
{
    const uint64_t middle = ((uint64_t)1 << 55) + 4;
    const double low = 36028797018963968.0 * 256, high = 36028797018963976.0 * 256;
    unsigned char p[40];
    CHECK(sum_real(p, pickle_long(p, 9, 1, middle)) == low);
    CHECK(sum_real(p, pickle_long(p, 9, 1, middle + 1)) == high && sum_real(p, pickle_long(p, 9, 1, middle - 1)) == low);
    uint64_t size = pickle_long(p, 9, 1, middle);
    p[7] = 1;
    CHECK(sum_real(p, size) == high);
}

/* A sum is one with a short head as long as its digits can be counted there. */
static void long_ints_are_written_whole(void)
{
    for (uint32_t digits = 250; digits < 260; digits++) {
        unsigned char a[300], sum[300], twice[300];
        uint64_t size = pickle_long(a, digits, digits - 1, 0x20), needed;
        uint64_t expected = pickle_long(twice, digits, digits - 1, 0x40), head = digits > 255 ? 7 : 4;
        CHECK(pickle_add(a, size, a, size, sum, sizeof sum, &needed) == FOUND && needed == expected - 7 + head);
        CHECK(sum[2] == (digits > 255 ? 0x8b : 0x8a) && sum[3] == (unsigned char)digits);
        CHECK(memcmp(sum + head, twice + 7, digits + 1) == 0);
    }
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
    CHECK(transaction_enter(&hold, a.lane, &s->section, &a.heap, ACP_FOREVER) == ACP_OK);
    for (uint64_t i = 0; i < KEYS; i++) {
        struct element e = element_of(&shape, key, i, &value);
        struct answer answer = {.out = NULL};
        CHECK(map_bucket_put(&hold, &shape, s, &e, PUT_INSERT, &answer) == ACP_OK);
    }
    CHECK(map_slots_clear(&hold, &shape, s) == ACP_OK && s->dying);
    struct element e = element_of(&shape, key, 0, &value);
    struct answer answer = {.out = NULL};
    CHECK(map_bucket_put(&hold, &shape, s, &e, PUT_INSERT, &answer) == ACP_OK && !s->dying);
    transaction_leave(&hold);
    CHECK(check_heap(&a) == 3); /* the stripe, its table, the element */
    actor_end(&a);
    close(fd);
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
        CHECK(map_find_element(&lane, &race->a.heap, &race->shape, race->stripe, &e, &answer,
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
    CHECK(transaction_enter(&hold, race->a.lane, &s->section, &race->a.heap, ACP_FOREVER) == ACP_OK);
    CHECK((erase ? map_bucket_erase(&hold, &race->shape, s, &e, 0, &answer)
                 : map_bucket_put(&hold, &race->shape, s, &e, PUT_ASSIGN, &answer)) == ACP_OK);
    transaction_leave(&hold);
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
            CHECK(transaction_enter(&hold, race.a.lane, &race.stripe->section, &race.a.heap,
                                    ACP_FOREVER) == ACP_OK);
            CHECK(map_slots_reserve(&hold, &race.shape, race.stripe, 200 + k) == ACP_OK);
            transaction_leave(&hold);
        }
    }
    race.over = true;
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    actor_end(&race.a);
    close(fd);
}

/* One process reads a value; when it has come to the second page of it, another has changed the value and
 * written something else to where it was. */
static struct {
    struct actor a, b;
    struct stripe *stripe;
    struct shape shape;
    unsigned char *page;
    uint64_t changes;
} overtaken;

static void put_long(struct actor *a, struct stripe *s, uint64_t word)
{
    static uint64_t value[3 * PAGE / 8];
    const uint64_t key = 5;
    struct element e = {.hash = 77, .key = &key, .key_size = 8, .value = value, .value_size = sizeof value};
    struct answer answer = {.out = NULL};
    struct hold hold;
    for (uint64_t i = 0; i < LONG_WORDS; i++)
        value[i] = word;
    CHECK(transaction_enter(&hold, a->lane, &s->section, &a->heap, ACP_FOREVER) == ACP_OK);
    CHECK(map_bucket_put(&hold, &overtaken.shape, s, &e, PUT_ASSIGN, &answer) == ACP_OK);
    transaction_leave(&hold);
}

static void change_meanwhile(int number)
{
    (void)number;
    CHECK(mprotect(overtaken.page, PAGE, PROT_READ | PROT_WRITE) == 0);
    struct stripe *s = (struct stripe *)(void *)(overtaken.b.heap.base +
                                                 ((unsigned char *)overtaken.stripe - overtaken.a.heap.base));
    for (uint64_t i = 0; i < 4; i++)
        put_long(&overtaken.b, s, ++overtaken.changes);
}

static void a_read_that_a_change_overtakes(struct book *book)
{
    static uint64_t value[3 * PAGE / 8];
    const uint64_t key = 5;
    struct sigaction at_fault = {.sa_handler = change_meanwhile}, before;
    struct element e = {.hash = 77, .key = &key, .key_size = 8};
    int fd = crash_memory(48 << 20);
    CHECK(map_slots_shape(&overtaken.shape, 8, SIZE_ANY, 0, 0) == ACP_OK);
    actor_start(&overtaken.a, fd);
    actor_start(&overtaken.b, fd);
    stripe_start(&overtaken.a, book, true);
    overtaken.stripe = stripe_of(&overtaken.a, book);
    put_long(&overtaken.a, overtaken.stripe, 0);
    CHECK(sigaction(SIGSEGV, &at_fault, &before) == 0);
    for (uint64_t round = 1; round < 50; round++) {
        struct answer answer = {.out = NULL};
        CHECK(map_find_element(overtaken.a.lane, &overtaken.a.heap, &overtaken.shape, overtaken.stripe, &e, &answer,
                               ACP_FOREVER) == ACP_OK);
        answer.out = (unsigned char *)value;
        answer.room = sizeof value;
        uint64_t inner = (answer.value_at + PAGE) / PAGE * PAGE; /* whole pages of it begin there */
        overtaken.page = overtaken.a.heap.base + inner;
        CHECK(inner + PAGE < answer.value_at + sizeof value);
        CHECK(mprotect(overtaken.page, PAGE, PROT_NONE) == 0);
        CHECK(map_find_element(overtaken.a.lane, &overtaken.a.heap, &overtaken.shape, overtaken.stripe, &e, &answer,
                               ACP_FOREVER) == ACP_OK);
        CHECK(answer.found == FOUND && answer.size == sizeof value && overtaken.changes == 4 * round);
        for (uint64_t i = 0; i < LONG_WORDS; i++)
            CHECK(value[i] == overtaken.changes);
    }
    CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
    actor_end(&overtaken.a);
    actor_end(&overtaken.b);
    close(fd);
}

int main(void)
{
    struct book *book = shared_memory(sizeof *book);
    alike(book, false);
    alike(book, true);
    refused_when_full(book, false);
    refused_when_full(book, true);
    cleared_by_those_who_come(book);
    found_meanwhile(book);
    a_read_that_a_change_overtakes(book);
    counts_have_room_in_a_word(book);
    boxes_end_where_memory_does();
    sums_of_anything();
    long_ints_are_rounded();
    long_ints_are_written_whole();
    return 0;
}
