/* Members that join later. A newcomer knows all earlier members; these learn of it with its first message or mapping.
 * On a node each process that opens another's memory writes the place of its own table into its line of flags there,
 * and missing rows are read from that table; on links the rows are sent along. */
#include "peers/newcomers.h"
#include "core/state/peer.h"
#include "core/upcalls.h"
#include "peers/attach.h"
#include "peers/peer.h"
#include "peers/rank_table.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Takes all members of the node's table into the job. With the space lock held. */
static void take_in(acp_engine *e)
{
    uint32_t have = atomic_load(&e->job.table.head->count), procs = e->procs;
    if (have > procs)
        e->up->join(e, have - procs, 0);
}

int acp_engine_learn(acp_engine *e, uint32_t first, const uint8_t *rows, uint32_t count)
{
    pthread_mutex_lock(&e->space);
    int rc = e->job.own ? acp_table_add(e, first, rows, count) : ACP_E_ARGUMENT;
    if (rc == ACP_OK)
        take_in(e);
    pthread_mutex_unlock(&e->space);
    return rc;
}

void newcomers_publish_table(acp_engine *e)
{
    e->control->table_fd = e->job.table.fd;
    atomic_store(&e->control->table_nonce, e->job.table.head->nonce);
}

/* Copies the rows of another table of this node that the own one does not have. */
static void copy_from(acp_engine *e, const struct row *holder, int32_t fd, uint64_t nonce)
{
    struct row place = *holder, rows[ROWS_PIECE];
    struct table_head head;
    if (!nonce || nonce == e->job.table.head->nonce)
        return;
    place.memory_fd = fd;
    int table = attach_table(e, &place, nonce);
    if (table < 0)
        return;
    bool good = pread(table, &head, sizeof head, 0) == (ssize_t)sizeof head;
    for (uint32_t have; good && (have = e->job.table.head->count) < head.count;) {
        uint32_t n = head.count - have < ROWS_PIECE ? head.count - have : ROWS_PIECE;
        good = rank_table_read(e, table, have, rows, n) &&
               acp_table_add(e, have, (const uint8_t *)rows, n) == ACP_OK;
    }
    close(table);
}

/* The tables of all peers that have opened the memory of this process, or the other way round. */
static void look_into_others(acp_engine *e, uint32_t slot)
{
    for (uint32_t i = 1; i < ATTACH_LINES && slot >= e->job.table.head->count; i++) {
        const struct attach_line *l = &e->doors->lines[i];
        struct row holder = {.pid = l->pid, .uid = e->row.uid, .nonce = l->nonce};
        if (l->holder && !(l->holder & CLAIMING))
            copy_from(e, &holder, l->table_fd, l->table_nonce);
    }
    for (struct peer *p = NULL; slot >= e->job.table.head->count && (p = peer_next(e, p));)
        if (p->relation == RELATION_NODE && !p->lost)
            copy_from(e, &p->row, p->shm.control->table_fd, p->shm.control->table_nonce);
}

bool newcomers_find(acp_engine *e, uint64_t slot)
{
    if (slot >= e->procs && slot < ACP_RANKS_MAX && e->job.own && !e->stopping) {
        pthread_mutex_lock(&e->space);
        if (slot >= e->job.table.head->count)
            look_into_others(e, (uint32_t)slot);
        take_in(e);
        pthread_mutex_unlock(&e->space);
    }
    return slot < e->procs;
}

bool newcomers_attached(acp_engine *e, uint32_t slot)
{
    for (uint32_t i = 1; i < ATTACH_LINES; i++)
        if (e->doors->lines[i].holder == (uint64_t)slot + 1)
            return !peer_line_dead(e, e->doors, i);
    return false;
}

uint32_t newcomers_known_to(const acp_engine *e, const struct peer *p)
{
    return p->slot < e->job.founders ? e->job.founders : p->slot + 1;
}

void newcomers_learn(acp_engine *e, const struct message *m, const unsigned char *payload, uint64_t size)
{
    if (payload && size == m->b * ACP_ROW_SIZE && m->a < ACP_RANKS_MAX)
        acp_engine_learn(e, (uint32_t)m->a, payload, (uint32_t)m->b);
}

void acp_engine_joined(acp_engine *e, uint32_t low, uint32_t high, uint32_t founders)
{
    pthread_mutex_lock(&e->space);
    e->job.joined_with = e->job.everybody = (struct span){low, high};
    e->job.founders = founders;
    pthread_mutex_unlock(&e->space);
}

void acp_engine_leave(acp_engine *e, uint32_t low, uint32_t high)
{
    struct span those = {low, high};
    uint32_t count;
    const uint32_t *mates = rank_table_mates(e, &count);
    pthread_mutex_lock(&e->space);
    e->job.joined_with = those;
    pthread_mutex_unlock(&e->space);
    /* so that all mates outside are told, also those that only they have talked to */
    for (uint32_t i = 0; i < count; i++) {
        struct peer *mate = span_has(e->job.everybody, mates[i]) && !span_has(those, mates[i])
                                ? peer_of_slot(e, mates[i])
                                : NULL;
        if (mate)
            peer_attach(e, mate);
    }
}

/* The span of slots that end together with this process: the others stay. `word` is 0 before the end. After a loss no
 * barriers are told: a receiver that has not heard of the loss would report the end instead. */
struct message newcomers_leaving(const acp_engine *e, uint64_t word)
{
    return (struct message){.kind = ACP_LEAVING, .from = e->self,
                            .a = word || !e->sync.said_all ? word : SAID_ALL,
                            .b = e->job.losses ? 0 : e->sync.met_key, .after = e->sync.meetings,
                            .dst = e->job.joined_with.low, .src = e->job.joined_with.high};
}

void acp_engine_widen(acp_engine *e)
{
    pthread_mutex_lock(&e->space);
    if (!e->config.service) /* by all it means those that ended up with it */
        e->job.everybody = (struct span){0, e->procs};
    pthread_mutex_unlock(&e->space);
}

struct span newcomers_members(const acp_engine *e, uint32_t purpose)
{
    return purpose >= PURPOSE_FINALIZE ? e->job.joined_with : e->job.everybody;
}
