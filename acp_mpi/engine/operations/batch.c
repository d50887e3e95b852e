/* Elements of a call over many that go to one peer by link travel in frames of up to 64 KiB:
 *
 *   put      dst, bytes         answered by nothing but success
 *   get      src                by the bytes
 *   atomic   src, value, and for compare-and-swap what is compared    by the old values
 *
 * All elements of a batch have the same size; records and bytes are padded to 8. */
#include "operations/batch.h"
#include "core/state/peer.h"
#include "memory/translate.h"
#include "operations/execute.h"
#include "operations/op_table.h"
#include "operations/protocol_tcp.h"
#include "operations/route.h"
#include "operations/task.h"
#include "operations/vector.h"

#include <stdlib.h>
#include <string.h>

#define ELEMENT_MOST ((uint64_t)4096) /* larger ones gain nothing by company */
#define ATOMIC_RECORD ((uint64_t)24)
#define GATHERED_MOST ((uint64_t)1 << 20) /* bytes of open batches at which all of them are sent */
#define FIRST_BYTES ((uint64_t)512) /* of a batch that is opened beside others: few elements may come */

struct batch {
    struct batch *next; /* in its bucket */
    struct peer *target;
    uint32_t color;
    uint8_t kind; /* ACP_PUT, ACP_GET, an atomic */
    bool wants_old;
    uint64_t element; /* bytes */
    uint64_t count, room, most;
    uint64_t *index; /* of the elements in the call */
    unsigned char data[];
};

static uint64_t padded(uint64_t size)
{
    return (size + 7) & ~(uint64_t)7;
}

static uint64_t record_of(uint8_t kind, uint64_t element)
{
    return kind == ACP_PUT ? 8 + padded(element) : kind == ACP_GET ? 8 : ATOMIC_RECORD;
}

static uint64_t answer_of(uint8_t kind, uint64_t element)
{
    return kind == ACP_PUT ? 0 : kind == ACP_GET ? padded(element) : 8;
}

/* How many elements fit, there and back. */
static uint64_t most_of(uint8_t kind, uint64_t element)
{
    uint64_t record = record_of(kind, element), answer = answer_of(kind, element);
    return CHUNK_BYTES / (record > answer ? record : answer);
}

static uint8_t kind_of(const struct plan *plan, const struct message *element)
{
    return layout_is_atomic(element->kind) ? element->kind : plan->way == WAY_PUT ? ACP_PUT : ACP_GET;
}

static uint64_t size_of(const struct message *element)
{
    return layout_is_atomic(element->kind) ? layout_atomic_width(element->kind) : element->a;
}

bool batch_takes(const struct plan *plan, const struct message *element)
{
    if (plan->road != &road_link || size_of(element) > ELEMENT_MOST)
        return false;
    return layout_is_atomic(element->kind) ? plan->way == WAY_ASK && plan->strip
                                           : plan->way == WAY_PUT || plan->way == WAY_GET;
}

static void batch_send(acp_lane *lane, struct op *op, struct batch *b)
{
    acp_engine *e = lane->engine;
    struct op *child = task_new(e);
    if (!child) {
        lane_fail(lane, ACP_E_SYSTEM, 0, 0);
        op_table_fault(op, &lane->fault);
        free(b);
        return;
    }
    child->parent = op;
    child->way = WAY_BATCH;
    child->state = OP_RUNNING;
    child->target = b->target;
    child->road = &road_link;
    child->color = b->color;
    child->batch = b;
    child->in_flight = 1;
    child->command = (struct message){.kind = ACP_BATCH, .flags = b->kind, .id = op_table_id(child),
                                      .status = b->wants_old, .a = b->element, .b = b->count};
    uint64_t bytes = b->count * record_of(b->kind, b->element);
    if (protocol_tcp_command(lane, b->target, b->color, &child->command, b->data, bytes) != ACP_OK) {
        op_table_fault(op, &lane->fault);
        task_free(e, child);
        free(b);
        return;
    }
    op->many->under_way++;
}

/* Bytes of a batch with room for that many elements, without its struct. */
static uint64_t bytes_of(const struct batch *b, uint64_t room)
{
    return room * (record_of(b->kind, b->element) + sizeof *b->index);
}

void batches_send(acp_lane *lane, struct op *op)
{
    struct many *m = op->many;
    for (uint32_t i = 0; m->gathered && i < OPEN_BUCKETS; i++) {
        for (struct batch *b = m->open[i], *next; b; b = next) {
            next = b->next;
            if (op->fault.status == ACP_OK)
                batch_send(lane, op, b);
            else
                free(b);
        }
        m->open[i] = NULL;
    }
    m->gathered = 0;
}

/* The same batch with room for `room` elements, in another place; NULL: no memory. */
static struct batch *batch_with(struct many *m, const struct batch *before, uint64_t room)
{
    uint64_t record = record_of(before->kind, before->element);
    struct batch *b = malloc(sizeof *b + bytes_of(before, room));
    if (!b)
        return NULL;
    *b = *before;
    b->room = room;
    b->index = (uint64_t *)(void *)(b->data + room * record);
    if (b->count) {
        memcpy(b->data, before->data, b->count * record);
        memcpy(b->index, before->index, b->count * sizeof *b->index);
    }
    m->gathered += bytes_of(b, room);
    return b;
}

/* The first is mostly the only one. */
static struct batch *batch_new(struct many *m, const struct plan *plan,
                               const struct message *element)
{
    struct batch empty = {.target = plan->target, .color = plan->color,
                          .kind = kind_of(plan, element), .wants_old = m->old,
                          .element = size_of(element)};
    uint64_t few = FIRST_BYTES / record_of(empty.kind, empty.element) + 1;
    uint64_t most = most_of(empty.kind, empty.element), left = m->count - m->next;
    empty.most = left < most ? left : most;
    return batch_with(m, &empty, m->gathered && few < empty.most ? few : empty.most);
}

static struct batch *batch_longer(struct many *m, struct batch *b)
{
    uint64_t twice = 2 * b->room;
    struct batch *longer = batch_with(m, b, twice < b->most ? twice : b->most);
    if (longer) {
        m->gathered -= bytes_of(b, b->room);
        free(b);
    }
    return longer;
}

/* The batch that an element belongs to, or where it is to be begun. */
static struct batch **batch_for(struct many *m, const struct plan *plan,
                                const struct message *element)
{
    uint8_t kind = kind_of(plan, element);
    uint64_t size = size_of(element);
    uint64_t key = plan->target->slot ^ size << 24 ^ (uint64_t)kind << 40;
    struct batch **at = &m->open[key * 0x9E3779B97F4A7C15u >> (64 - OPEN_BITS)];
    while (*at && ((*at)->target != plan->target || (*at)->color != plan->color ||
                   (*at)->kind != kind || (*at)->element != size))
        at = &(*at)->next;
    return at;
}

bool batch_add(acp_lane *lane, struct op *op, uint64_t i, const struct plan *plan,
               const struct message *element)
{
    struct many *m = op->many;
    struct batch **at = batch_for(m, plan, element), *b = *at;
    if (!b && !plan->road->room(lane, plan->target, plan->color))
        return false;
    if (!b || b->count == b->room) {
        b = b ? batch_longer(m, b) : batch_new(m, plan, element);
        if (!b) {
            lane_fail(lane, ACP_E_SYSTEM, element->src, element->a);
            op_table_fault(op, &lane->fault);
            return true;
        }
        *at = b;
    }
    unsigned char *record = b->data + b->count * record_of(b->kind, b->element);
    if (b->kind == ACP_PUT) {
        memcpy(record, &element->dst, 8);
        if (execute_command(lane, element, (struct place){record + 8, false}, 0, b->element, NULL)) {
            op_table_fault(op, &lane->fault);
            return true;
        }
    } else {
        const uint64_t words[3] = {element->src, element->a, element->b};
        memcpy(record, words, record_of(b->kind, b->element));
    }
    b->index[b->count++] = i;
    if (b->count == b->most) {
        *at = b->next;
        m->gathered -= bytes_of(b, b->room);
        batch_send(lane, op, b);
    } else if (m->gathered > GATHERED_MOST) {
        batches_send(lane, op);
    }
    return true;
}

/* Copies the results of a batch to the destinations of its elements. */
void batch_reply(acp_lane *lane, struct op *child, const unsigned char *payload, uint64_t size)
{
    const struct batch *b = child->batch;
    struct many *m = child->parent->many;
    bool atomic = layout_is_atomic(b->kind);
    uint64_t step = answer_of(b->kind, b->element);
    if (child->fault.status == ACP_E_DEVICE && !atomic) { /* some are device memory */
        uint64_t *again = realloc(m->again, (m->again_count + b->count) * sizeof *again);
        child->fault.status = again ? ACP_OK : ACP_E_SYSTEM;
        m->again = again ? again : m->again;
        for (uint64_t i = 0; again && i < b->count; i++)
            again[m->again_count++] = b->index[i];
        return;
    }
    bool brings = b->kind == ACP_GET || (atomic && b->wants_old);
    if (brings && child->fault.status == ACP_OK && (!payload || size != b->count * step)) {
        lane_fail(lane, ACP_E_ARGUMENT, 0, size);
        op_table_fault(child, &lane->fault);
    }
    for (uint64_t i = 0; brings && child->fault.status == ACP_OK && i < b->count; i++) {
        const unsigned char *data = payload + i * step;
        struct message c = {.kind = ACP_COPY, .dst = m->columns[0][b->index[i]], .a = b->element};
        if (atomic)
            memcpy(m->old + b->index[i], data, 8);
        else if (execute_command(lane, &c, (struct place){(unsigned char *)(uintptr_t)data, true}, 0,
                                 b->element, NULL) != ACP_OK)
            op_table_fault(child, &lane->fault);
    }
}

static bool of_device(acp_lane *lane, acp_ga_t ga, uint64_t size)
{
    struct translation t;
    enum reach reach;
    return translate(lane, ga, size, &t, &reach) == ACP_OK && reach == REACH_DEVICE;
}

/* Runs the elements of a batch of a peer, with their results in `answer`. The first error is the batch's, the other
 * elements are run. */
static int run_all(acp_lane *lane, const struct message *m, const unsigned char *records,
                   unsigned char *answer)
{
    uint64_t record = record_of(m->flags, m->a), step = answer_of(m->flags, m->a);
    acp_fault first = {.status = ACP_OK};
    for (uint64_t i = 0; i < m->b; i++) {
        const unsigned char *data = records + i * record;
        uint64_t words[3], old = 0;
        memcpy(words, data, record < sizeof words ? 8 : sizeof words);
        struct message c = {.kind = ACP_COPY, .dst = words[0], .src = words[0], .a = m->a};
        int rc;
        if (m->flags == ACP_PUT) {
            struct place bytes = {(unsigned char *)(uintptr_t)(data + 8), true};
            rc = execute_command(lane, &c, bytes, 0, m->a, NULL);
        } else if (m->flags == ACP_GET) {
            rc = execute_command(lane, &c, (struct place){answer + i * step, false}, 0, m->a, NULL);
        } else {
            c = (struct message){.kind = m->flags, .src = words[0], .a = words[1], .b = words[2]};
            rc = words[0] & (m->a - 1) ? lane_fail(lane, ACP_E_ALIGN, words[0], m->a)
                                       : execute_command(lane, &c, (struct place){0}, 0, 0, &old);
            memcpy(answer + i * step, &old, sizeof old);
        }
        if (rc == ACP_E_BUSY) /* the peer sends these alone; or another process would be needed: not a batch of ours */
            rc = lane_fail(lane, of_device(lane, words[0], m->a) ? ACP_E_DEVICE : ACP_E_UNREGISTERED, words[0], m->a);
        if (rc != ACP_OK && first.status == ACP_OK)
            first = lane->fault;
    }
    lane->fault = first;
    return first.status;
}

int batch_run(acp_lane *lane, const struct message *m, struct acp_call *c)
{
    bool atomic = layout_is_atomic(m->flags);
    bool known = atomic ? m->a == layout_atomic_width(m->flags)
                        : (m->flags == ACP_PUT || m->flags == ACP_GET) && m->a - 1 < ELEMENT_MOST;
    if (!known || !m->b || m->b > most_of(m->flags, m->a) ||
        c->in_size != m->b * record_of(m->flags, m->a))
        return lane_fail(lane, ACP_E_ARGUMENT, m->dst, c->in_size);
    if (m->flags == ACP_GET || (atomic && m->status))
        c->out_size = m->b * answer_of(m->flags, m->a);
    return run_all(lane, m, c->in, c->out);
}
