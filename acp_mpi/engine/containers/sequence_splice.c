/* Elements go out of a sequence and others come in, in one change: in place where nothing is lost
 * by that before the change has happened, else in a new block. */
#include "containers/sequence_splice.h"
#include "containers/container.h"
#include "containers/sequence.h"
#include "containers/sequence_rows.h"
#include "core/lane.h"
#include "core/method.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <string.h>

#define LEAST_BYTES ((uint64_t)64) /* of the first block */
#define KEPT_BYTES ((uint64_t)128) /* old ones that fit into the journal */

static void splice_commit(struct hold *hold, const struct source *from)
{
    if (from->block)
        transaction_drop(hold, from->block);
    transaction_commit(hold);
}

static int cancel(struct hold *hold, int status)
{
    transaction_cancel(hold);
    return status;
}

static int too_many(struct hold *hold, uint64_t count)
{
    hold->lane->fault = (acp_fault){.status = ACP_E_FULL, .rank = -1, .size = count,
                                    .high = hold->heap->span};
    return ACP_E_FULL;
}

static void resize(struct hold *hold, struct sequence *s, uint64_t size)
{
    transaction_set(hold, &s->row.size, size);
}

static uint64_t grown(const struct row_of *r, uint64_t size)
{
    uint64_t least = r->width ? (LEAST_BYTES + r->width - 1) / r->width : 64;
    uint64_t room = r->room + r->room / 2;
    room = room < least ? least : room;
    return room < size ? size : room;
}

/* Takes a block, with spare room unless only a smaller one is left. */
static int row_take(struct hold *hold, struct row_of *r, uint64_t least)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(r->room, r->width, &bytes))
        return too_many(hold, r->room);
    int rc = transaction_take(hold, bytes, &r->data);
    if (rc == ACP_E_FULL && r->room > least) {
        r->room = least;
        rc = transaction_take(hold, least * r->width, &r->data);
    }
    return rc;
}

static void adopt(struct hold *hold, struct sequence *s, const struct row_of *to)
{
    if (s->row.data)
        transaction_drop(hold, s->row.data);
    transaction_set(hold, &s->row.data, to->data);
    transaction_set(hold, &s->row.room, to->room);
    transaction_set(hold, &s->row.first, to->first);
    resize(hold, s, to->size);
}

static int rebuild(struct hold *hold, struct sequence *s, const struct splice *p,
                   const struct source *from, uint64_t room)
{
    struct heap *h = hold->heap;
    uint64_t at = (uint64_t)p->at, end = at + p->erase, rest = s->row.size - end;
    struct row_of to = {.room = room, .size = at + p->insert + rest, .width = s->row.width};
    bool whole = from->block && to.size == p->insert && !from->repeats &&
                 to.size >= s->row.room;
    transaction_begin(hold);
    if (whole) {
        to.data = from->block;
        to.room = to.size;
        adopt(hold, s, &to);
        transaction_commit(hold);
        return ACP_OK;
    }
    int rc = row_take(hold, &to, to.size == s->row.size ? room : to.size);
    if (rc != ACP_OK)
        return cancel(hold, rc);
    unsigned char *data = h->base + to.data;
    sequence_rows_copy(h, &s->row, 0, at, data);
    sequence_rows_fill(h, &to, at, p->insert, from->bytes, from->repeats);
    sequence_rows_copy(h, &s->row, end, rest, data + (at + p->insert) * to.width);
    adopt(hold, s, &to);
    splice_commit(hold, from);
    return ACP_OK;
}

/* Old words into the journal, and then bytes over them. */
static void overwrite_few(struct hold *hold, const struct sequence *s, const struct splice *p,
                          const struct source *from)
{
    struct heap *h = hold->heap;
    const struct row_of *r = &s->row;
    for (uint64_t i = 0; i < p->insert && r->width; i++) {
        uint64_t low = sequence_rows_place(r, (uint64_t)p->at + i), high = low + r->width;
        for (uint64_t word = low & ~(uint64_t)7; word < high; word += 8) {
            uint64_t *w = (uint64_t *)(void *)(h->base + word);
            transaction_set(hold, w, *w);
        }
    }
    sequence_rows_fill(h, r, (uint64_t)p->at, p->insert, from->bytes, from->repeats);
}

static int overwrite(struct hold *hold, struct sequence *s, const struct splice *p,
                     const struct source *from)
{
    struct heap *h = hold->heap;
    const struct row_of *r = &s->row;
    uint64_t bytes = p->insert * r->width, at = (uint64_t)p->at, block = from->block;
    bool few = bytes <= KEPT_BYTES && (r->width >= 8 || bytes <= KEPT_BYTES / 8);
    if (!few && !sequence_rows_straight(r, at, p->insert))
        return rebuild(hold, s, p, from, r->room);
    transaction_begin(hold);
    if (few) {
        overwrite_few(hold, s, p, from);
        splice_commit(hold, from);
        return ACP_OK;
    }
    if (!block || from->repeats) {
        struct row_of new = {.room = p->insert, .width = r->width};
        int rc = row_take(hold, &new, p->insert);
        if (rc != ACP_OK)
            return cancel(hold, rc);
        sequence_rows_fill(h, &new, 0, p->insert, from->bytes, from->repeats);
        block = new.data;
        transaction_drop(hold, block);
    }
    transaction_move(hold, sequence_rows_place(r, at), block, bytes);
    splice_commit(hold, from);
    return ACP_OK;
}

static int elements_erase(struct hold *hold, struct sequence *s, const struct splice *p,
                          const struct source *from)
{
    struct row_of *r = &s->row;
    uint64_t at = (uint64_t)p->at, rest = r->size - at - p->erase;
    bool front = !at && rest && s->head.kind == KIND_DEQUE;
    if (rest && !front && !sequence_rows_straight(r, at, r->size - at))
        return rebuild(hold, s, p, from, r->room);
    transaction_begin(hold);
    if (front)
        transaction_set(hold, &r->first,
                        r->first + p->erase - (r->first + p->erase < r->room ? 0 : r->room));
    else if (rest)
        transaction_move(hold, sequence_rows_place(r, at), sequence_rows_place(r, at + p->erase), rest * r->width);
    resize(hold, s, r->size - p->erase);
    splice_commit(hold, from);
    return ACP_OK;
}

static int elements_insert(struct hold *hold, struct sequence *s, const struct splice *p,
                           const struct source *from)
{
    struct row_of *r = &s->row, to = *r;
    uint64_t at = (uint64_t)p->at, rest = r->size - at;
    bool front = !at && rest && s->head.kind == KIND_DEQUE;
    if (rest && !front && !sequence_rows_straight(r, at, rest + p->insert))
        return rebuild(hold, s, p, from, r->room);
    transaction_begin(hold);
    if (front)
        to.first = r->first < p->insert ? r->first + r->room - p->insert : r->first - p->insert;
    else if (rest)
        transaction_shift(hold, sequence_rows_place(r, at + p->insert), sequence_rows_place(r, at), rest * r->width);
    sequence_rows_fill(hold->heap, &to, at, p->insert, from->bytes, from->repeats);
    if (front)
        transaction_set(hold, &r->first, to.first);
    resize(hold, s, r->size + p->insert);
    splice_commit(hold, from);
    return ACP_OK;
}

int sequence_splice(struct hold *hold, struct sequence *s, const struct splice *p,
                    const struct source *from)
{
    struct row_of *r = &s->row;
    uint64_t kept = r->size - p->erase, size = kept + p->insert;
    if (size < kept || size > (uint64_t)INT64_MAX)
        return too_many(hold, p->insert);
    if (size > r->room)
        return rebuild(hold, s, p, from, grown(r, size));
    if (!kept && from->block && !from->repeats)
        return rebuild(hold, s, p, from, r->room);
    if (p->erase == p->insert)
        return overwrite(hold, s, p, from);
    if (!p->insert)
        return elements_erase(hold, s, p, from);
    if (!p->erase)
        return elements_insert(hold, s, p, from);
    return rebuild(hold, s, p, from, r->room);
}

static int rebuild_with(struct hold *hold, struct sequence *s, uint64_t room)
{
    const struct splice nothing = {.at = (int64_t)s->row.size};
    const struct source nowhere = {.bytes = NULL};
    return rebuild(hold, s, &nothing, &nowhere, room);
}

int sequence_splice_reserve(struct hold *hold, struct sequence *s, uint64_t room)
{
    return room > s->row.room ? rebuild_with(hold, s, room) : ACP_OK;
}

int sequence_splice_fit(struct hold *hold, struct sequence *s)
{
    return s->row.size < s->row.room ? rebuild_with(hold, s, s->row.size) : ACP_OK;
}
