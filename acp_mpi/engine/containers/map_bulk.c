/* Methods of a part of a map that take many elements: those of one stripe after another, so that
 * its section is entered once for them. */
#include "containers/map_bulk.h"
#include "base/word.h"
#include "containers/container.h"
#include "containers/map.h"
#include "containers/map_bucket.h"
#include "containers/map_find.h"
#include "containers/map_slots.h"
#include "memory/transaction.h"

#include <string.h>

#define AHEAD 20u /* records by which slots are fetched into the cache ahead */
#define SIZE_NONE UINT64_MAX
#define SIZE_LARGE (UINT64_MAX - 1) /* found, but too large for a batch */
#define LARGE ((uint64_t)16 << 10)

/* The record at `at`; returns where the next one begins, 0: it is none. */
static uint64_t result_record(const struct acp_call *c, const struct shape *shape, uint64_t at, bool valued,
                              struct element *e)
{
    const unsigned char *p = (const unsigned char *)c->in + at;
    uint64_t left = c->in_size - at;
    uint64_t head[3] = {0, shape->key_size, shape->value_size};
    uint64_t head_size = !shape->boxed ? 8 : valued ? 24 : 16;
    if (left < head_size)
        return 0;
    memcpy(head, p, head_size);
    uint64_t key = 8 * words_of(head[1]), value = valued ? 8 * words_of(head[2]) : 0;
    if (head[0] <= SLOT_GRAVE || head[1] > left || value > left || key + value > left - head_size ||
        (shape->key_size != SIZE_ANY && head[1] != shape->key_size) ||
        (valued && shape->value_size != SIZE_ANY && head[2] != shape->value_size))
        return 0;
    p += head_size;
    *e = (struct element){.hash = head[0], .key = p + (shape->boxed ? value : 0), .key_size = head[1],
                          .value = p + (shape->boxed ? 0 : key), .value_size = valued ? head[2] : 0};
    return at + head_size + key + value;
}

static struct stripe *hashed_stripe(const struct part *part, uint64_t hash)
{
    return &part->map->stripes[hash % STRIPES];
}

/* The slot of the record some way ahead, if all are of one size. */
static void fetch_ahead(const struct acp_call *c, const struct part *part, uint64_t at, uint64_t size)
{
    uint64_t hash, ahead = at + AHEAD * size;
    if (part->shape.boxed || ahead + size > c->in_size)
        return;
    memcpy(&hash, (const unsigned char *)c->in + ahead, sizeof hash);
    map_slots_fetch(part->heap, &part->shape, hashed_stripe(part, hash), hash);
}

/* The caller comes again with the rest, unless a signal has ended the call, which must not be lost. */
static int stopped(uint64_t done, int rc)
{
    return done && rc != ACP_E_INTERRUPTED ? ACP_OK : rc;
}

static int change_many(acp_lane *lane, struct acp_call *c, bool erase)
{
    struct part part;
    struct hold hold;
    struct element e;
    struct stripe *entered = NULL;
    unsigned char *found = c->out;
    uint64_t at = 0, done = 0;
    int rc = map_part_find(lane, c, &part);
    while (rc == ACP_OK && at < c->in_size) {
        struct answer answer = {.out = NULL};
        uint64_t next = result_record(c, &part.shape, at, !erase, &e);
        if (!next) {
            rc = lane_fail(lane, ACP_E_ARGUMENT, c->object, at);
            break;
        }
        fetch_ahead(c, &part, at, next - at);
        struct stripe *s = hashed_stripe(&part, e.hash);
        if (s != entered && entered)
            transaction_leave(&hold);
        if (s != entered) {
            entered = NULL;
            rc = map_part_enter(&hold, lane, c, &part, s);
            if (rc != ACP_OK)
                break;
            entered = s;
        }
        rc = erase ? map_bucket_erase(&hold, &part.shape, s, &e, 0, &answer)
                   : map_bucket_put(&hold, &part.shape, s, &e, (enum put_how)(c->b >> 8), &answer);
        if (rc != ACP_OK)
            break;
        if (done < c->out_room)
            found[done] = answer.found != FOUND_NOT;
        at = next;
        done++;
    }
    if (entered)
        transaction_leave(&hold);
    c->result[0] = at;
    c->result[1] = done;
    c->out_size = done < c->out_room ? done : c->out_room;
    return stopped(done, rc);
}

int map_bulk_method_put_many(acp_lane *lane, struct acp_call *c)
{
    return change_many(lane, c, false);
}

int map_bulk_method_erase_many(acp_lane *lane, struct acp_call *c)
{
    return change_many(lane, c, true);
}

/* Short values of one size: each behind a word that is 1 or 0. Else behind a word with its size. */
int map_bulk_method_find_many(acp_lane *lane, struct acp_call *c)
{
    struct part part;
    struct element e;
    uint64_t at = 0, done = 0;
    int rc = map_part_find(lane, c, &part);
    uint64_t fixed = rc == ACP_OK && part.shape.value_size <= INLINE_MOST ? part.shape.value_size
                                                                          : SIZE_ANY;
    while (rc == ACP_OK && at < c->in_size) {
        unsigned char *out = (unsigned char *)c->out + c->out_size;
        uint64_t room = c->out_room - c->out_size, size = 0;
        uint64_t next = result_record(c, &part.shape, at, false, &e);
        if (!next) {
            rc = lane_fail(lane, ACP_E_ARGUMENT, c->object, at);
            break;
        }
        if (room < 8 + (fixed == SIZE_ANY ? LARGE : 8 * words_of(fixed)))
            break;
        fetch_ahead(c, &part, at, next - at);
        struct answer answer = {.out = out + 8, .room = fixed == SIZE_ANY ? LARGE : fixed};
        rc = map_find_element(lane, part.heap, &part.shape, hashed_stripe(&part, e.hash), &e, &answer,
                              lane->patience_ns);
        if (rc != ACP_OK)
            break;
        uint64_t head = answer.found != FOUND_NOT;
        if (fixed != SIZE_ANY)
            size = 8 * words_of(fixed);
        else if (answer.found == FOUND)
            size = 8 * words_of(answer.size);
        if (fixed == SIZE_ANY)
            head = !head ? SIZE_NONE : answer.found == FOUND_LARGE ? SIZE_LARGE : answer.size;
        memcpy(out, &head, sizeof head);
        c->out_size += 8 + size;
        at = next;
        done++;
    }
    if (rc == ACP_OK && !container_lives(&part.map->head, c))
        return container_gone(lane, c);
    c->result[0] = at;
    c->result[1] = done;
    return stopped(done, rc);
}
