/* Processes are killed while they change a vector or a deque. Each time the next one finds it as
 * before or as after the splice that was under way, and no block is lost.
 *
 * CRASHES=10000: so many processes. */
#include "support/crash.h"
#include "containers/container.h"
#include "containers/sequence.h"
#include "containers/sequence_rows.h"
#include "containers/sequence_splice.h"
#include "core/method.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "memory/transaction_lock.h"

#include <time.h>

#define WIDTH 24u /* chunks of a move end inside an element */
#define MOST 120u
#define FITS 13u /* each so many operations the block is made to fit */
#define FAR 150u /* stores before a death */

struct book {
    struct record record;
    uint64_t sequence;
};

struct model {
    uint64_t size;
    uint64_t values[2 * MOST];
};

struct deed {
    struct splice splice;
    uint64_t value;
};

static void element_fill(unsigned char *to, uint64_t value)
{
    for (uint64_t i = 0; i < WIDTH / 8; i++)
        memcpy(to + 8 * i, &(uint64_t){value * (i + 1)}, 8);
}

/* What the k-th operation is, at that size. */
static struct deed deed_of(uint64_t k, uint64_t size)
{
    uint64_t state = k * 0x9e3779b97f4a7c15ull + 1;
    crash_random(&state);
    uint64_t kind = crash_random(&state) % 6, at = crash_random(&state) % (size + 1);
    uint64_t few = 1 + crash_random(&state) % 5, many = crash_random(&state) % 60;
    struct deed p = {.value = crash_random(&state)};
    p.splice.at = kind == 0 ? 0 : kind == 1 ? (int64_t)size : (int64_t)at;
    uint64_t rest = size - (uint64_t)p.splice.at;
    if (kind < 3)
        p.splice.insert = few;
    else if (kind < 5)
        p.splice.erase = k % 2 ? few : many;
    else
        p.splice.erase = p.splice.insert = many;
    if (kind == 4)
        p.splice.at = 0, rest = size;
    p.splice.erase = p.splice.erase < rest ? p.splice.erase : rest;
    if (kind == 5 && k % 3)
        p.splice.insert = p.splice.erase;
    if (size > MOST)
        p.splice.insert = p.splice.insert < p.splice.erase ? p.splice.insert : p.splice.erase;
    return p;
}

static void foresee(struct model *m, uint64_t k)
{
    if (k % FITS == 0)
        return;
    struct deed p = deed_of(k, m->size);
    uint64_t *at = m->values + p.splice.at;
    uint64_t rest = m->size - (uint64_t)p.splice.at - p.splice.erase;
    memmove(at + p.splice.insert, at + p.splice.erase, rest * sizeof *at);
    for (uint64_t i = 0; i < p.splice.insert; i++)
        at[i] = p.value + i;
    m->size += p.splice.insert - p.splice.erase;
}

static struct sequence *sequence_of(struct actor *a, const struct book *book)
{
    return (struct sequence *)(void *)(a->heap.base + book->sequence);
}

static void perform(struct actor *a, struct sequence *s, uint64_t k)
{
    static unsigned char bytes[2 * MOST * WIDTH];
    struct hold hold;
    const struct source from = {.bytes = bytes};
    CHECK(transaction_enter(&hold, a->lane, &s->head.section, &a->heap, ACP_FOREVER) == ACP_OK);
    struct deed p = deed_of(k, s->row.size);
    for (uint64_t i = 0; i < p.splice.insert; i++)
        element_fill(bytes + i * WIDTH, p.value + i);
    CHECK((k % FITS ? sequence_splice(&hold, s, &p.splice, &from) : sequence_splice_fit(&hold, s)) ==
          ACP_OK);
    transaction_leave(&hold);
}

static void act(struct actor *a, struct record *record, uint64_t k)
{
    perform(a, sequence_of(a, (struct book *)record), k);
}

static void mend_sequence(struct actor *a, struct record *record)
{
    mend(a, &sequence_of(a, (struct book *)record)->head.section);
}

static const struct roles roles = {act, mend_sequence, 50, 300000};

static bool agrees(struct actor *a, const struct book *book, const struct model *m)
{
    const struct sequence *s = sequence_of(a, book);
    unsigned char expected[WIDTH], found[WIDTH];
    if (s->row.size != m->size || sequence_rows_check(a->lane, &a->heap, &s->row) != ACP_OK)
        return false;
    for (uint64_t i = 0; i < m->size; i++) {
        element_fill(expected, m->values[i]);
        sequence_rows_copy(&a->heap, &s->row, i, 1, found);
        if (memcmp(expected, found, WIDTH))
            return false;
    }
    return true;
}

static void settle(struct actor *a, struct book *book, struct model *m, uint64_t *done)
{
    while (*done < book->record.ended)
        foresee(m, ++*done);
    if (book->record.begun > book->record.ended && !agrees(a, book, m)) {
        foresee(m, ++*done);
        book->record.ended = *done;
    }
    CHECK(agrees(a, book, m));
}

static void crash(struct book *book, uint64_t kind, uint64_t crashes)
{
    static struct model m;
    struct actor a;
    int fd = crash_memory(48 << 20);
    uint64_t state = 99, done = 0, killed = 0;
    actor_start(&a, fd);
    CHECK(heap_take(a.lane, &a.heap, sizeof(struct sequence), &book->sequence, ACP_FOREVER) ==
          ACP_OK);
    struct sequence *s = sequence_of(&a, book);
    memset(s, 0, sizeof *s);
    transaction_lock_create(&s->head.section);
    s->head.kind = kind;
    s->row.width = WIDTH;
    m.size = book->record.begun = book->record.ended = 0;
    for (uint64_t i = 0; i < crashes; i++) {
        killed += worker_dies(fd, &roles, &book->record, i, FAR, 4, &state);
        for (uint64_t more = crash_random(&state) % 3; more; more--)
            mender(fd, &roles, &book->record, 1 + crash_random(&state) % 40);
        mend(&a, &s->head.section);
        check_section(&s->head.section);
        CHECK(check_heap(&a) == 1 + (s->row.data != 0));
        settle(&a, book, &m, &done);
    }
    CHECK(killed > crashes / 2);
    actor_end(&a);
    close(fd);
}

int main(void)
{
#if defined(__SANITIZE_THREAD__) /* it sees one process, and no lock whose holder has died */
    return 0;
#endif
    uint64_t crashes = crashes_wanted(600);
    struct book *book = shared_memory(sizeof *book);
    crash(book, KIND_VECTOR, crashes / 2);
    crash(book, KIND_DEQUE, crashes / 2);
    return 0;
}
