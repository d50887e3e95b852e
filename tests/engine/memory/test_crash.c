/* Processes are killed in the middle of what they do to shared memory: at every store of a change,
 * again while they mend what another left, and at random instants, alone and beside others. Each
 * time the next process finds the state before or after the operation that was under way, and a
 * heap in which nothing is lost.
 *
 * CRASHES=10000: so many processes; without it few enough for every day. */
#include "support/crash.h"
#include "memory/heap.h"
#include "memory/heap_pages.h"
#include "memory/transaction.h"
#include "memory/transaction_lock.h"

#include <sched.h>
#include <time.h>

#define SLOTS 24u
#define WORDS 5u        /* of an element: chunks of a move end inside one */
#define MOST 300u       /* elements */
#define WORKERS 3u
#define FAR 260u        /* stores before a death */

struct element {
    uint64_t word[WORDS];
};

/* What one process works on: blocks of its own, and a vector under a section. */
struct world {
    struct section section;
    uint64_t data, size, room;
    uint64_t left, right; /* a transfer between the two: their sum is 0 */
    uint64_t slots[SLOTS];
    uint64_t kept; /* a row of blocks, or none */
};

/* Shared by the tests' processes, beside the memory that is tested. */
struct book {
    struct record record;
    uint64_t world; /* its block */
};

struct model {
    uint64_t size, left;
    uint64_t values[MOST];
    bool slots[SLOTS], kept;
};

enum change { SLOT, PUSH, INSERT, ERASE, TRANSFER, SWEEP, ROW, KINDS };

struct step {
    enum change kind;
    uint64_t at, count, value;
};

/* What the k-th operation of a process is, in the state that the others left. */
static struct step step_of(uint64_t k, uint64_t size)
{
    uint64_t state = k * 0x9e3779b97f4a7c15ull + 1;
    crash_random(&state);
    struct step s = {.kind = (enum change)(crash_random(&state) % KINDS),
                     .value = crash_random(&state)};
    if (s.kind == SWEEP && k % 8)
        s.kind = SLOT;
    if (s.kind == PUSH && k % 2)
        s.kind = INSERT;
    if ((s.kind == PUSH || s.kind == INSERT) && size == MOST)
        s.kind = ERASE;
    if (s.kind == ERASE && !size)
        s.kind = PUSH;
    s.at = crash_random(&state) % (s.kind == SLOT ? SLOTS : s.kind == INSERT ? size + 1
                                                        : size  ? size
                                                                : 1);
    s.count = 1 + crash_random(&state) % (s.kind == ERASE ? size - s.at : 1);
    if (s.kind == ERASE && size < MOST && s.count > 3)
        s.count = 3;
    return s;
}

static void foresee(struct model *m, uint64_t k)
{
    struct step s = step_of(k, m->size);
    uint64_t *at = m->values + s.at, behind = m->size - s.at;
    switch (s.kind) {
    case SLOT:
        m->slots[s.at] = !m->slots[s.at];
        break;
    case PUSH:
        m->values[m->size++] = s.value;
        break;
    case INSERT:
        memmove(at + 1, at, behind * sizeof *at);
        *at = s.value;
        m->size++;
        break;
    case ERASE:
        memmove(at, at + s.count, (behind - s.count) * sizeof *at);
        m->size -= s.count;
        break;
    case TRANSFER:
        m->left += s.value;
        break;
    case ROW:
        m->kept = !m->kept;
        break;
    default:
        break;
    }
}

static struct world *world_of(struct actor *a, const struct book *book)
{
    return (struct world *)(void *)(a->heap.base + book->world);
}

/* False: others keep the heap, and nothing has happened. */
static bool make_room(struct actor *a, struct world *w, struct hold *hold)
{
    uint64_t room = w->room ? w->room * 2 : 2, block;
    transaction_begin(hold);
    int rc = transaction_take(hold, room * sizeof(struct element), &block);
    if (rc == ACP_E_BUSY) {
        transaction_cancel(hold);
        return false;
    }
    CHECK(rc == ACP_OK);
    memcpy(a->heap.base + block, a->heap.base + w->data, w->size * sizeof(struct element));
    if (w->data)
        transaction_drop(hold, w->data);
    transaction_set(hold, &w->data, block);
    transaction_set(hold, &w->room, room);
    transaction_commit(hold);
    return true;
}

static void put_in(struct actor *a, struct world *w, const struct step *s, struct hold *hold)
{
    uint64_t at = s->kind == PUSH ? w->size : s->at, width = sizeof(struct element);
    while (w->size == w->room && !make_room(a, w, hold))
        sched_yield();
    uint64_t place = w->data + at * width;
    transaction_begin(hold);
    if (at < w->size)
        transaction_shift(hold, place + width, place, (w->size - at) * width);
    struct element *e = (struct element *)(void *)(a->heap.base + place);
    for (uint64_t i = 0; i < WORDS; i++)
        e->word[i] = s->value * (i + 1);
    transaction_set(hold, &w->size, w->size + 1);
    transaction_commit(hold);
}

static void take_out(struct world *w, const struct step *s, struct hold *hold)
{
    uint64_t width = sizeof(struct element), place = w->data + s->at * width;
    transaction_begin(hold);
    if (s->at + s->count < w->size)
        transaction_move(hold, place, place + s->count * width,
                         (w->size - s->at - s->count) * width);
    transaction_set(hold, &w->size, w->size - s->count);
    transaction_commit(hold);
}

static void toggle(struct actor *a, struct world *w, const struct step *s)
{
    uint64_t *slot = &w->slots[s->at], state = s->value | 1;
    int rc = *slot ? heap_give(a->lane, &a->heap, slot, ACP_FOREVER)
                   : heap_take(a->lane, &a->heap, crash_size(&state) * (1 + s->value % 4), slot,
                               ACP_FOREVER);
    CHECK(rc == ACP_OK);
    if (heap_pages_sweep_due(&a->heap))
        CHECK(heap_pages_sweep(a->lane, &a->heap, false, ACP_FOREVER) == ACP_OK);
}

static void row(struct actor *a, struct world *w, const struct step *s)
{
    CHECK((w->kept ? heap_give_row(a->lane, &a->heap, &w->kept, ACP_FOREVER)
                   : heap_take_row(a->lane, &a->heap, s->value % 2 * (s->value % 200), &w->kept,
                                   ACP_FOREVER)) == ACP_OK);
}

static void perform(struct actor *a, struct world *w, uint64_t k)
{
    struct hold hold;
    struct step s = step_of(k, w->size);
    if (s.kind == SLOT) {
        toggle(a, w, &s);
        return;
    }
    if (s.kind == SWEEP) {
        CHECK(heap_pages_sweep(a->lane, &a->heap, true, ACP_FOREVER) == ACP_OK);
        return;
    }
    if (s.kind == ROW) {
        row(a, w, &s);
        return;
    }
    CHECK(transaction_enter(&hold, a->lane, &w->section, &a->heap, ACP_FOREVER) == ACP_OK);
    if (s.kind == ERASE) {
        take_out(w, &s, &hold);
    } else if (s.kind == TRANSFER) {
        transaction_begin(&hold);
        transaction_set(&hold, &w->left, w->left + s.value);
        transaction_set(&hold, &w->right, w->right - s.value);
        transaction_commit(&hold);
    } else {
        put_in(a, w, &s, &hold);
    }
    transaction_leave(&hold);
}

static void act(struct actor *a, struct record *record, uint64_t k)
{
    perform(a, world_of(a, (struct book *)record), k);
}

static void mend_world(struct actor *a, struct record *record)
{
    mend(a, &world_of(a, (struct book *)record)->section);
    mend(a, &a->heap.head->sweeper);
    mend(a, &a->heap.head->section);
}

static const struct roles roles = {act, mend_world, 50, 300000};

static bool agrees(struct actor *a, const struct book *book, const struct model *m)
{
    const struct world *w = world_of(a, book);
    const struct element *e = (const struct element *)(const void *)(a->heap.base + w->data);
    bool good = w->size == m->size && w->left == m->left && w->left + w->right == 0;
    for (uint32_t i = 0; i < SLOTS; i++)
        good &= !w->slots[i] == !m->slots[i];
    good &= !w->kept == !m->kept;
    for (uint64_t i = 0; good && i < m->size; i++)
        for (uint64_t j = 0; j < WORDS; j++)
            good &= e[i].word[j] == m->values[i] * (j + 1);
    return good;
}

/* The world is that of one of the two models; how many blocks it holds. */
static uint64_t settle(struct actor *a, struct book *book, struct model *m, uint64_t *done)
{
    struct world *w = world_of(a, book);
    mend(a, &a->heap.head->section); /* it may have been about to name a block in a slot */
    mend(a, &w->section);
    check_section(&w->section);
    CHECK(w->size <= w->room && w->room <= 2 * MOST);
    while (*done < book->record.ended)
        foresee(m, ++*done);
    if (book->record.begun > book->record.ended && !agrees(a, book, m)) {
        foresee(m, ++*done);
        book->record.ended = *done;
    }
    CHECK(agrees(a, book, m));
    uint64_t blocks = 1 + (w->data != 0);
    for (uint32_t i = 0; i < SLOTS; i++)
        blocks += w->slots[i] != 0;
    for (uint64_t at = w->kept, left = HEAP_ROW; at; at = heap_kept(&a->heap, at)->next, left--) {
        CHECK(heap_kept(&a->heap, at)->count == left);
        blocks++;
    }
    return blocks;
}

static void world_create(struct actor *a, struct book *book)
{
    CHECK(heap_take(a->lane, &a->heap, sizeof(struct world), &book->world, ACP_FOREVER) == ACP_OK);
    struct world *w = world_of(a, book);
    memset(w, 0, sizeof *w);
    transaction_lock_create(&w->section);
    book->record.begun = book->record.ended = 0;
}

/* One worker at a time; by turns it dies at a certain store, and at some instant. */
static void alone(struct book *book, uint64_t crashes)
{
    static struct model m;
    struct actor a;
    int fd = crash_memory(48 << 20);
    uint64_t state = 99, done = 0, killed = 0;
    actor_start(&a, fd);
    world_create(&a, book);
    for (uint64_t i = 0; i < crashes; i++) {
        killed += worker_dies(fd, &roles, &book->record, i, FAR, 3, &state);
        for (uint64_t more = crash_random(&state) % 3; more; more--)
            mender(fd, &roles, &book->record, 1 + crash_random(&state) % 40);
        mend(&a, &world_of(&a, book)->section); /* before the heap is counted */
        uint64_t blocks = check_heap(&a);
        CHECK(blocks == settle(&a, book, &m, &done));
    }
    CHECK(killed > crashes / 2);
    actor_end(&a);
    close(fd);
}

/* Several at once in one heap; one of them dies, the others go on. */
static void together(struct book *books, uint64_t crashes)
{
    static struct model models[WORKERS];
    struct actor a;
    pid_t workers[WORKERS];
    uint64_t state = 7, done[WORKERS] = {0};
    int fd = crash_memory(48 << 20);
    memset(models, 0, sizeof models);
    actor_start(&a, fd);
    for (uint32_t i = 0; i < WORKERS; i++)
        world_create(&a, &books[i]);
    for (uint64_t left = crashes; left;) {
        uint64_t blocks = 0;
        for (uint32_t i = 0; i < WORKERS; i++)
            workers[i] = worker_start(fd, &roles, &books[i].record, 0, UINT64_MAX);
        for (uint32_t turn = 0; turn < 20 && left; turn++, left--) {
            uint32_t i = (uint32_t)(crash_random(&state) % WORKERS);
            random_pause(&state, 300000);
            kill(workers[i], SIGKILL);
            was_killed(workers[i]);
            settle(&a, &books[i], &models[i], &done[i]);
            workers[i] = worker_start(fd, &roles, &books[i].record,
                                      turn % 2 ? 1000 + left % 1000 : 0, UINT64_MAX);
        }
        for (uint32_t i = 0; i < WORKERS; i++)
            kill(workers[i], SIGKILL);
        for (uint32_t i = 0; i < WORKERS; i++)
            was_killed(workers[i]);
        for (uint32_t i = 0; i < WORKERS; i++)
            mend(&a, &world_of(&a, &books[i])->section);
        uint64_t counted = check_heap(&a);
        for (uint32_t i = 0; i < WORKERS; i++)
            blocks += settle(&a, &books[i], &models[i], &done[i]);
        CHECK(counted == blocks);
    }
    actor_end(&a);
    close(fd);
}

int main(void)
{
#if defined(__SANITIZE_THREAD__) /* it sees one process, and no lock whose holder has died */
    return 0;
#endif
    uint64_t crashes = crashes_wanted(1000);
    struct book *books = shared_memory(WORKERS * sizeof *books);
    alone(books, crashes - crashes / 3);
    together(books, crashes / 3);
    return 0;
}
