/* The heap: blocks do not overlap, wrong addresses are refused, memory comes and goes. */
#include "support/blocks_of_actors.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "memory/heap.h"
#include "memory/heap_calls.h"
#include "memory/heap_create.h"
#include "memory/heap_pages.h"
#include "memory/size_class.h"
#include "memory/transaction.h"

#include <pthread.h>
#include <sys/stat.h>

#define SLOTS 400u

static uint64_t file_bytes(int fd)
{
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    return (uint64_t)st.st_blocks * 512;
}

static void contents_survive(struct actor *a)
{
    static uint64_t block[SLOTS], size[SLOTS];
    uint64_t state = 77;
    for (uint32_t step = 0; step < 60000; step++) {
        uint32_t i = (uint32_t)(crash_random(&state) % SLOTS);
        unsigned char *data = a->heap.base + block[i];
        if (block[i]) {
            for (uint64_t at = 0; at < size[i]; at += size[i] / 8 + 1)
                CHECK(data[at] == (unsigned char)i);
            CHECK(!size[i] || data[size[i] - 1] == (unsigned char)i);
            CHECK(heap_give(a->lane, &a->heap, &block[i], ACP_FOREVER) == ACP_OK && !block[i]);
        } else {
            size[i] = crash_size(&state);
            CHECK((block[i] = take(a, size[i])) && block[i] % 16 == 0);
            memset(a->heap.base + block[i], (int)i, size[i]);
        }
        if (step % 1000 == 0)
            check_heap(a);
    }
    for (uint32_t i = 0; i < SLOTS; i++)
        CHECK(!block[i] || give(a, block[i]) == ACP_OK);
    CHECK(check_heap(a) == 0 && a->heap.head->fragments == 1);
}

static void wrong_addresses(struct actor *a)
{
    uint64_t first = take(a, 100), second = take(a, 0), third = take(a, 0);
    CHECK(second != third);
    CHECK(give(a, 0) == ACP_E_BLOCK);
    CHECK(give(a, first + 16) == ACP_E_BLOCK);
    CHECK(give(a, first + 8) == ACP_E_BLOCK);
    CHECK(give(a, a->heap.end + 16) == ACP_E_BLOCK);
    CHECK(give(a, UINT64_MAX - 15) == ACP_E_BLOCK);
    CHECK(give(a, (32 << 20) + 16) == ACP_E_BLOCK);
    CHECK(give(a, second) == ACP_OK && give(a, second) == ACP_E_BLOCK);
    memcpy(a->heap.base + first + 32, a->heap.base + first - 16, 16); /* a head elsewhere */
    CHECK(give(a, first + 48) == ACP_E_BLOCK);
    CHECK(give(a, first) == ACP_OK && give(a, first) == ACP_E_BLOCK);
    CHECK(give(a, third) == ACP_OK && check_heap(a) == 0);
    CHECK(!take(a, CRASH_SPAN) && a->lane->fault.status == ACP_E_FULL);
    CHECK(!take(a, UINT64_MAX) && a->lane->fault.status == ACP_E_FULL);
}

/* Blocks of one size by the row, which go back in whatever order they are chained. */
static void rows_come_and_go(struct actor *a)
{
    const struct heap *h = &a->heap;
    const uint32_t all = 2 * HEAP_ROW, end = all - 1;
    uint64_t row[2 * HEAP_ROW], *chain = (uint64_t *)(void *)(h->base + take(a, 64));
    for (uint32_t order = 0; order < 4; order++) {
        for (uint32_t i = 0; i < 2; i++) {
            *chain = 0;
            CHECK(heap_take_row(a->lane, &a->heap, 80 + 16 * order, chain, ACP_FOREVER) == ACP_OK);
            uint64_t at = *chain;
            for (uint32_t n = 0; n < HEAP_ROW; n++, at = heap_kept(h, at)->next) {
                CHECK(heap_kept(h, at)->count == HEAP_ROW - n);
                row[i * HEAP_ROW + n] = at;
            }
            CHECK(!at && check_heap(a) == 1 + (i + 1) * HEAP_ROW);
        }
        /* As they came; the other way round; from both ends; every fifth one. */
        *chain = 0;
        for (uint32_t n = 0; n < all; n++) {
            const uint32_t which[] = {end - n, n, n % 2 ? end - n / 2 : n / 2, n * 5 % all};
            uint64_t at = row[which[order]];
            heap_kept(h, at)->next = *chain;
            *chain = at;
        }
        while (*chain) {
            uint64_t before = check_heap(a);
            CHECK(heap_give_row(a->lane, &a->heap, chain, ACP_FOREVER) == ACP_OK);
            CHECK(check_heap(a) + HEAP_ROW <= before);
        }
        CHECK(check_heap(a) == 1);
        for (uint32_t n = 0; n < all; n++)
            CHECK(give(a, row[n]) == ACP_E_BLOCK);
    }
    uint64_t one = *chain = take(a, 100);
    heap_kept(h, one)->next = one + 16; /* no block: what is before it goes, and no more */
    CHECK(heap_give_row(a->lane, &a->heap, chain, ACP_FOREVER) == ACP_E_BLOCK);
    CHECK(*chain == one + 16 && check_heap(a) == 1);
    CHECK(give(a, (uint64_t)((unsigned char *)chain - h->base)) == ACP_OK && check_heap(a) == 0);
}

/* Writing past the end of a block is noticed, and does not spread. */
static void damage_is_seen(struct actor *a)
{
    uint64_t one = take(a, 64), two = take(a, 64), saved[2];
    unsigned char *head = a->heap.base + two - 16;
    memcpy(saved, head, 16);
    memset(head, 0x41, 16);
    CHECK(give(a, two) == ACP_E_BLOCK);
    CHECK(give(a, one) == ACP_E_DAMAGED);
    memcpy(head, saved, 16);
    CHECK(give(a, two) == ACP_OK && give(a, one) == ACP_OK && check_heap(a) == 0);
}

/* The foot of a free block says how long it is: one that leads elsewhere is noticed before anything is merged. */
static void a_wrong_foot_is_seen(struct actor *a)
{
    uint64_t other = take(a, 64), apart = take(a, 64), one = take(a, 200), two = take(a, 64);
    CHECK(give(a, other) == ACP_OK && give(a, one) == ACP_OK);
    uint64_t at = two - BLOCK_HEAD, *foot = (uint64_t *)(void *)(a->heap.base + at - 8), size = *foot;
    CHECK(size == heap_block_size(&a->heap, one - BLOCK_HEAD));
    const uint64_t wrong[] = {0,          16,     size - 16,        size + 16, at - (apart - BLOCK_HEAD),
                              at - (other - BLOCK_HEAD), at, at + 16, UINT64_MAX - 15};
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        *foot = wrong[i];
        CHECK(give(a, two) == ACP_E_DAMAGED);
        *foot = size;
        CHECK(check_heap(a) == 2);
    }
    CHECK(give(a, two) == ACP_OK && give(a, apart) == ACP_OK && check_heap(a) == 0);
}

/* Full means the limit, and what is free can be had in one piece again. */
static void full_and_empty(struct actor *a, int fd)
{
    static uint64_t block[512];
    uint32_t count = 0;
    uint64_t limit = a->heap.head->limit;
    while ((block[count] = take(a, 100000)))
        count++;
    CHECK(a->lane->fault.status == ACP_E_FULL && count * 100000 > limit - (1 << 20));
    check_heap(a);
    CHECK(file_bytes(fd) <= limit + heap_create_bytes(CRASH_SPAN));
    for (uint32_t i = 0; i < count; i += 2)
        CHECK(give(a, block[i]) == ACP_OK);
    CHECK(!take(a, 200000));
    for (uint32_t i = 1; i < count; i += 2)
        CHECK(give(a, block[i]) == ACP_OK);
    CHECK(heap_pages_sweep(a->lane, &a->heap, false, ACP_FOREVER) == ACP_OK);
    CHECK(check_heap(a) == 0 && a->heap.head->fragments == 1);
    CHECK(a->heap.head->committed <= 5 << 20);
    CHECK(file_bytes(fd) <= a->heap.head->committed + heap_create_bytes(CRASH_SPAN));
    uint64_t most = take(a, limit - (1 << 20));
    CHECK(most && give(a, most) == ACP_OK);
    CHECK(heap_pages_sweep(a->lane, &a->heap, true, ACP_FOREVER) == ACP_OK);
    crash_others = limit - (2 << 20); /* arrays take the rest */
    CHECK(!take(a, 4 << 20));
    crash_others = 0;
    acp_heap_statistics s;
    CHECK(heap_calls_look(a->lane, &a->heap, &s, ACP_FOREVER) == ACP_OK);
    CHECK(s.used == 0 && s.fragments == 1 && s.largest + BLOCK_HEAD == s.free && s.free == s.size);
}

/* What goes back to the system and is wanted again stays there the next time, up to a bound. */
static void what_is_wanted_again_stays(struct actor *a)
{
    struct heap_head *head = a->heap.head;
    uint64_t limit = head->limit, swept = 0;
    head->limit = (uint64_t)1 << 30;
    head->kept = KEPT_LEAST;
    head->returned = 0;
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t block = take(a, 12 << 20);
        CHECK(block && give(a, block) == ACP_OK);
        swept += heap_pages_sweep_due(&a->heap);
        CHECK(!heap_pages_sweep_due(&a->heap) ||
              heap_pages_sweep(a->lane, &a->heap, false, ACP_FOREVER) == ACP_OK);
        CHECK(head->committed <= head->kept + (2 << 20));
    }
    CHECK(swept > 0 && swept < 4 && head->kept > KEPT_LEAST);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t block = take(a, 50 << 20);
        CHECK(block && give(a, block) == ACP_OK);
        CHECK(heap_pages_sweep(a->lane, &a->heap, false, ACP_FOREVER) == ACP_OK);
    }
    CHECK(head->kept == 16 << 20 && head->committed <= 17 << 20);
    head->limit = limit;
    head->kept = KEPT_LEAST;
    CHECK(check_heap(a) == 0 && heap_pages_sweep(a->lane, &a->heap, true, ACP_FOREVER) == ACP_OK);
}

/* How much of it never goes back: more than there is. */
static void a_wrong_number_of_pinned_granules(struct actor *a)
{
    struct heap_head *head = a->heap.head;
    uint64_t was = head->pinned, wrong[] = {1000, UINT64_MAX - 7, (uint64_t)1 << 60, 0x2020202020202020};
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t block = take(a, 4 << 20);
        CHECK(block && give(a, block) == ACP_OK);
        head->pinned = wrong[i];
        CHECK(heap_pages_sweep(a->lane, &a->heap, true, ACP_FOREVER) == ACP_OK);
        head->pinned = was;
        CHECK(heap_pages_sweep(a->lane, &a->heap, true, ACP_FOREVER) == ACP_OK && check_heap(a) == 0);
    }
}

/* The map of the last lists names one that there is not. */
static void a_map_that_is_written_over_is_swept(struct actor *a)
{
    uint64_t *map = &a->heap.head->class_map[HEAP_LEVELS - 1], before = *map;
    *map |= 1ull << 40;
    CHECK(heap_pages_sweep(a->lane, &a->heap, true, ACP_FOREVER) == ACP_OK);
    *map = before;
    CHECK(check_heap(a) == 0);
}

/* Every part is full, though the blocks are of the very size that is asked for. */
static void last_block_is_found(struct actor *a)
{
    uint64_t room = a->heap.end - a->heap.first, limit = a->heap.head->limit;
    a->heap.head->limit = room;
    uint64_t all = take(a, (33 << 20) - 1016), some = take(a, 5000);
    CHECK(all && some);
    uint64_t rest = a->heap.end + 16 - some - heap_block_size(&a->heap, some - 16);
    uint64_t behind = take(a, rest - 16);
    CHECK(behind && !take(a, 1));
    CHECK(give(a, all) == ACP_OK && (all = take(a, (33 << 20) - 1016)) && !take(a, 1));
    CHECK(give(a, behind) == ACP_OK && give(a, some) == ACP_OK && give(a, all) == ACP_OK);
    CHECK(check_heap(a) == 0 && a->heap.head->fragments == 1);
    CHECK(heap_pages_sweep(a->lane, &a->heap, true, ACP_FOREVER) == ACP_OK);
    a->heap.head->limit = limit;
}

/* Of what is committed seven tenths and more are used. */
static void little_is_wasted(struct actor *a)
{
    static uint64_t block[64];
    uint64_t state = 5, used = 0, committed = 0;
    for (uint32_t step = 0; step < 50000; step++) {
        uint32_t i = (uint32_t)(crash_random(&state) % 64);
        if (block[i])
            CHECK(heap_give(a->lane, &a->heap, &block[i], ACP_FOREVER) == ACP_OK);
        else
            CHECK((block[i] = take(a, crash_random(&state) % (1 << 20))));
        if (heap_pages_sweep_due(&a->heap))
            CHECK(heap_pages_sweep(a->lane, &a->heap, false, ACP_FOREVER) == ACP_OK);
        used += a->heap.head->used;
        committed += a->heap.head->committed;
    }
    for (uint32_t i = 0; i < 64; i++)
        CHECK(!block[i] || give(a, block[i]) == ACP_OK);
    CHECK(check_heap(a) == 0 && used / 7 >= committed / 10);
}

struct toiler {
    struct actor *actor;
    uint32_t lane;
};

static void *toil(void *argument)
{
    struct toiler *t = argument;
    struct actor a = *t->actor;
    uint64_t block[32] = {0}, state = 100 + t->lane;
    a.lane = &a.engine->lanes[t->lane];
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t i = (uint32_t)(crash_random(&state) % 32);
        if (block[i]) {
            CHECK(a.heap.base[block[i]] == (unsigned char)t->lane);
            CHECK(heap_give(a.lane, &a.heap, &block[i], ACP_FOREVER) == ACP_OK);
        } else {
            CHECK((block[i] = take(&a, crash_size(&state) + 1)));
            a.heap.base[block[i]] = (unsigned char)t->lane;
        }
        if (heap_pages_sweep_due(&a.heap))
            heap_pages_sweep(a.lane, &a.heap, false, ACP_FOREVER);
    }
    for (uint32_t i = 0; i < 32; i++)
        CHECK(!block[i] || give(&a, block[i]) == ACP_OK);
    return NULL;
}

static void threads_together(struct actor *a)
{
    pthread_t threads[4];
    struct toiler toilers[4];
    for (uint32_t i = 0; i < 4; i++) {
        toilers[i] = (struct toiler){a, LANE_LOCKED + 1 + i};
        CHECK(pthread_create(&threads[i], NULL, toil, &toilers[i]) == 0);
    }
    for (uint32_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(check_heap(a) == 0 && a->heap.head->fragments == 1);
}

/* A sweeper that dies with the only free block in its hands. */
static void sweep_and_die(struct actor *a)
{
    struct heap *h = &a->heap;
    struct hold sweep, hold;
    bool dead;
    a->engine->row.pid = (uint32_t)getpid(); /* whose the locks are that it takes */
    a->engine->row.start_time = linux_start_time(a->engine->row.pid, &dead);
    CHECK(transaction_enter(&sweep, a->lane, &h->head->sweeper, h, ACP_FOREVER) == ACP_OK);
    CHECK(transaction_enter(&hold, a->lane, &h->head->section, h, ACP_FOREVER) == ACP_OK);
    uint64_t at = size_class_find(h, SWEPT);
    transaction_begin(&sweep);
    transaction_begin(&hold);
    heap_block_reserve(&hold, at);
    transaction_set(&hold, &h->head->sweeper.fresh[0], at + BLOCK_HEAD);
    transaction_commit(&hold);
    transaction_leave(&hold);
    _exit(0);
}

static void what_a_sweeper_has_comes_back(struct actor *a)
{
    for (uint32_t rows = 0; rows < 2; rows++) {
        uint64_t block = 0;
        pid_t child = child_start();
        if (!child)
            sweep_and_die(a);
        CHECK(!was_killed(child));
        CHECK(size_class_find(&a->heap, 100) == 0);
        if (!rows) {
            CHECK((block = take(a, 100)) && give(a, block) == ACP_OK);
            continue;
        }
        CHECK(heap_take_row(a->lane, &a->heap, 100, &block, ACP_FOREVER) == ACP_OK && block);
        CHECK(heap_give_row(a->lane, &a->heap, &block, ACP_FOREVER) == ACP_OK && !block);
    }
    CHECK(check_heap(a) == 0 && a->heap.head->fragments == 1);
}

int main(void)
{
    struct actor a;
    int fd = crash_memory(48 << 20);
    actor_start(&a, fd);
    contents_survive(&a);
    wrong_addresses(&a);
    rows_come_and_go(&a);
    damage_is_seen(&a);
    a_wrong_foot_is_seen(&a);
    full_and_empty(&a, fd);
    threads_together(&a);
    what_a_sweeper_has_comes_back(&a);
    what_is_wanted_again_stays(&a);
    a_map_that_is_written_over_is_swept(&a);
    a_wrong_number_of_pinned_granules(&a);
    last_block_is_found(&a);
    little_is_wasted(&a);
    actor_end(&a);
    return 0;
}
