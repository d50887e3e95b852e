/* A job that grows. Who joins later knows all that were there before; these learn of it when
 * something of it first reaches them. On a node whoever talks to a process leaves word in its line
 * of flags where its own table is, and what is missing is read there; on links it is sent along. */
#include "transport/link.h"
#include "membership/team.h"
#include "transport/connection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 256u /* rows taken or sent at a time: they fit a frame */
static_assert(PIECE * ACP_ROW_SIZE <= FRAME_PAYLOAD_MOST, "a piece is a frame");
static_assert(FRAME_HEAD + PIECE * ACP_ROW_SIZE + FRAME_SUM <= INTRODUCTION_MOST, "and goes out whole");

/* Takes in whoever stands in the table of the node. With the space lock held. */
static void take_in(acp_engine *e)
{
    uint32_t have = atomic_load(&e->table.head->count), procs = e->procs;
    if (have > procs)
        acp_engine_join(e, have - procs, 0);
}

int acp_engine_learn(acp_engine *e, uint32_t first, const uint8_t *rows, uint32_t count)
{
    pthread_mutex_lock(&e->space);
    int rc = e->own ? acp_table_add(e, first, rows, count) : ACP_E_ARGUMENT;
    if (rc == ACP_OK)
        take_in(e);
    pthread_mutex_unlock(&e->space);
    return rc;
}

void growth_show_table(acp_engine *e)
{
    e->control->table_fd = e->table.fd;
    atomic_store(&e->control->table_nonce, e->table.head->nonce);
}

/* Copies what another table of this node has more than the own. */
static void copy_from(acp_engine *e, const struct row *holder, int32_t fd, uint64_t nonce)
{
    struct row place = *holder, rows[PIECE];
    struct table_head head;
    if (!nonce || nonce == e->table.head->nonce)
        return;
    place.memory_fd = fd;
    int table = attach_table(e, &place, nonce);
    if (table < 0)
        return;
    bool good = pread(table, &head, sizeof head, 0) == (ssize_t)sizeof head;
    for (uint32_t have; good && (have = e->table.head->count) < head.count;) {
        uint32_t n = head.count - have < PIECE ? head.count - have : PIECE;
        good = table_read(e, table, have, rows, n) &&
               acp_table_add(e, have, (const uint8_t *)rows, n) == ACP_OK;
    }
    close(table);
}

/* The tables of those who have opened the memory of this process, or whose it has opened. */
static void look_into_others(acp_engine *e, uint32_t slot)
{
    for (uint32_t i = 1; i < ATTACH_LINES && slot >= e->table.head->count; i++) {
        const struct attach_line *l = &e->doors->lines[i];
        struct row holder = {.pid = l->pid, .uid = e->row.uid, .nonce = l->nonce};
        if (l->holder && !(l->holder & CLAIMING))
            copy_from(e, &holder, l->table_fd, l->table_nonce);
    }
    for (struct peer *p = NULL; slot >= e->table.head->count && (p = peer_next(e, p));)
        if (p->relation == RELATION_NODE && !p->lost)
            copy_from(e, &p->row, p->control->table_fd, p->control->table_nonce);
}

bool growth_reaches(acp_engine *e, uint64_t slot)
{
    if (slot >= e->procs && slot < ACP_RANKS_MAX && e->own && !e->stopping) {
        pthread_mutex_lock(&e->space);
        if (slot >= e->table.head->count)
            look_into_others(e, (uint32_t)slot);
        take_in(e);
        pthread_mutex_unlock(&e->space);
    }
    return slot < e->procs;
}

bool growth_left_word(acp_engine *e, uint32_t slot)
{
    for (uint32_t i = 1; i < ATTACH_LINES; i++)
        if (e->doors->lines[i].holder == (uint64_t)slot + 1)
            return !peer_line_dead(e, e->doors, i);
    return false;
}

uint32_t growth_known_to(const acp_engine *e, const struct peer *p)
{
    return p->slot < e->founders ? e->founders : p->slot + 1;
}

void growth_told(acp_engine *e, const struct message *m, const unsigned char *payload, uint64_t size)
{
    if (payload && size == m->b * ACP_ROW_SIZE && m->a < ACP_RANKS_MAX)
        acp_engine_learn(e, (uint32_t)m->a, payload, (uint32_t)m->b);
}

static struct message piece_of(const acp_engine *e, uint8_t kind, uint32_t first, uint32_t end,
                               unsigned char *payload)
{
    uint32_t n = end - first < PIECE ? end - first : PIECE;
    for (uint32_t i = 0; i < n; i++) {
        struct row row = table_row(e, first + i);
        memcpy(payload + (size_t)i * ACP_ROW_SIZE, &row, sizeof row);
    }
    return (struct message){.kind = kind, .a = first, .b = n};
}

/* Before anything that may name them: those that have joined since the peer did. */
bool growth_tell(acp_lane *lane, struct link *link)
{
    acp_engine *e = lane->engine;
    unsigned char rows[PIECE * ACP_ROW_SIZE];
    while (link->told < e->procs) {
        struct message m = piece_of(e, ACP_ROWS, link->told, e->procs, rows);
        if (link_send(lane, link, &m, rows, m.b * ACP_ROW_SIZE) != ACP_OK)
            return false;
        link->told += (uint32_t)m.b;
    }
    return true;
}

/* A newcomer says first on a wire who it is: a peer that does not know it could not let it in. */
size_t growth_introduce(const acp_engine *e, uint32_t *told, unsigned char *frame)
{
    unsigned char rows[PIECE * ACP_ROW_SIZE];
    struct message m = piece_of(e, ACP_NEWCOMER, *told, e->self + 1, rows);
    uint32_t size = (uint32_t)m.b * ACP_ROW_SIZE;
    *told += (uint32_t)m.b;
    frame_write(frame, &m, 0, 0, rows, size);
    return frame_bytes(size);
}

void acp_engine_joined(acp_engine *e, uint32_t low, uint32_t high, uint32_t founders)
{
    pthread_mutex_lock(&e->space);
    e->joined_with = e->everybody = (struct span){low, high};
    e->founders = founders;
    pthread_mutex_unlock(&e->space);
}

void acp_engine_leave(acp_engine *e, uint32_t low, uint32_t high)
{
    struct span those = {low, high};
    uint32_t count;
    const uint32_t *mates = table_mates(e, &count);
    pthread_mutex_lock(&e->space);
    e->joined_with = those;
    pthread_mutex_unlock(&e->space);
    for (uint32_t i = 0; i < count; i++) { /* so that they are told, whoever has talked to them */
        struct peer *mate = span_has(e->everybody, mates[i]) && !span_has(those, mates[i])
                                ? peer_of_slot(e, mates[i])
                                : NULL;
        if (mate)
            peer_attach(e, mate);
    }
}

/* Whoever may wait for one that leaves without the others hears of it from those that know. */
void growth_leaves(acp_lane *lane, struct peer *p, const struct message *m)
{
    acp_engine *e = lane->engine;
    struct span ends = {(uint32_t)m->dst, (uint32_t)m->src};
    bool alone = !span_has(ends, e->self), news = alone && !p->alone;
    if (alone) { /* before it is known to leave */
        p->ends_low = ends.low;
        p->ends_high = ends.high;
        p->left = p->alone = true;
    }
    if (!p->leaving) {
        p->leaving = now_ns();
        atomic_fetch_add(&e->leavers, 1);
    }
    if (m->a)
        p->ending = true;
    if (m->a == FAREWELL)
        p->gone = true;
    if (news && span_has(e->everybody, p->slot)) {
        struct message parting = parting_of(e, p);
        notify_all(lane, &parting);
    }
    if (p->gone && p->left && p->relation == RELATION_NODE)
        peer_mark_lost(e, p); /* its ring is read by nobody any more, though its process may live on */
    waiters_wake(e);
}

/* Who ends with whom: the others stay. */
struct message growth_farewell(const acp_engine *e, uint64_t word)
{
    return (struct message){.kind = ACP_LEAVING, .from = e->self, .a = word,
                            .dst = e->joined_with.low, .src = e->joined_with.high};
}

void acp_engine_widen(acp_engine *e)
{
    pthread_mutex_lock(&e->space);
    e->everybody = (struct span){0, e->procs};
    pthread_mutex_unlock(&e->space);
}

struct span growth_everybody(const acp_engine *e, uint32_t purpose)
{
    return purpose >= PURPOSE_FINALIZE ? e->joined_with : e->everybody;
}
