/* The table of members, once per node: a sealed sparse memory file that one process makes and the others of the node
 * map, read-only. The table only grows (rank_table_append.c). The file has its full size from the start, so that no
 * mapping of it ever gets SIGBUS, and lives as long as any process has it mapped. */
#include "peers/rank_table.h"
#include "base/linux.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const unsigned char *rank_table_bytes(const acp_engine *e, uint32_t slot)
{
    return e->job.table.base + TABLE_ROWS + (uint64_t)slot * TABLE_ROW;
}

uint64_t rank_table_node(const acp_engine *e, uint32_t slot)
{
    uint64_t node;
    memcpy(&node, rank_table_bytes(e, slot) + offsetof(struct row, node), sizeof node);
    return node;
}

bool rank_table_service(const acp_engine *e, uint32_t slot)
{
    return rank_table_bytes(e, slot)[offsetof(struct row, flags)] & ROW_SERVICE;
}

uint32_t rank_table_services(const acp_engine *e)
{
    return e->job.table.head->services;
}

static struct row unpack(const acp_engine *e, const unsigned char *packed)
{
    struct row row;
    memcpy(&row, packed, TABLE_ROW);
    row.host = row.flags & ROW_SAME_HOST ? e->config.host : ~e->config.host;
    row.flags &= (uint8_t)~ROW_SAME_HOST;
    return row;
}

struct row rank_table_row(const acp_engine *e, uint32_t slot)
{
    return unpack(e, rank_table_bytes(e, slot));
}

/* Rows of another table of this node. */
bool rank_table_read(const acp_engine *e, int fd, uint32_t first, struct row *rows, uint32_t count)
{
    unsigned char packed[TABLE_ROW];
    for (uint32_t i = 0; i < count; i++) {
        off_t at = (off_t)(TABLE_ROWS + (uint64_t)(first + i) * TABLE_ROW);
        if (pread(fd, packed, sizeof packed, at) != (ssize_t)sizeof packed)
            return false;
        rows[i] = unpack(e, packed);
    }
    return true;
}

void rank_table_pack(const acp_engine *e, const struct row *row, unsigned char *out)
{
    struct row packed = *row;
    packed.flags &= ROW_SIX | ROW_SERVICE;
    packed.flags |= row->host == e->config.host ? ROW_SAME_HOST : 0;
    memcpy(out, &packed, TABLE_ROW);
}

const uint32_t *rank_table_below(const acp_engine *e, uint64_t array, uint32_t have, uint32_t limit,
                                  uint32_t *count)
{
    const uint32_t *slots = (const uint32_t *)(const void *)(e->job.table.base + array);
    uint32_t low = 0;
    while (low < have) {
        uint32_t middle = low + (have - low) / 2;
        if (slots[middle] < limit)
            low = middle + 1;
        else
            have = middle;
    }
    *count = low;
    return slots;
}

const uint32_t *rank_table_firsts(const acp_engine *e, uint32_t *count)
{
    return rank_table_below(e, TABLE_FIRSTS, e->job.table.head->nodes, e->procs, count);
}

bool rank_table_together(const acp_engine *e)
{
    uint32_t nodes, i = 0;
    const uint32_t *firsts = rank_table_firsts(e, &nodes);
    while (i < nodes && !(rank_table_node(e, firsts[i]) & NODE_APART))
        i++;
    return i == nodes;
}

const uint32_t *rank_table_mates(const acp_engine *e, uint32_t *count)
{
    return rank_table_below(e, TABLE_MATES, e->job.table.head->mates, e->procs, count);
}

int rank_table_map(acp_engine *e, int fd)
{
    void *base = linux_map(fd, 0, TABLE_SIZE, PROT_READ);
    if (base == MAP_FAILED)
        return ACP_E_SYSTEM;
    e->job.table = (struct table){fd, base, base};
    return ACP_OK;
}

/* A table of this layout and this node, made by that user's process with that nonce. */
bool rank_table_genuine(const acp_engine *e, int fd, uint32_t uid, uint64_t nonce)
{
    struct stat st;
    struct table_head head;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != uid ||
        (uint64_t)st.st_size != TABLE_SIZE)
        return false;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return false;
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return false;
    return head.magic == TABLE_MAGIC && head.version == LAYOUT_VERSION && head.nonce == nonce &&
           head.node == e->config.node && head.count <= ACP_RANKS_MAX &&
           head.nodes <= head.count && head.mates <= head.count;
}

int acp_table_place(const acp_engine *e, uint8_t place[ACP_ROW_SIZE])
{
    struct row row = e->row;
    if (e->job.table.fd < 0 || e->job.table.head->nonce != e->row.nonce)
        return ACP_E_ARGUMENT;
    row.memory_fd = e->job.table.fd;
    memcpy(place, &row, sizeof row);
    return ACP_OK;
}

uint32_t rank_table_rank(const acp_engine *e, uint32_t slot)
{
    if (!e->slot_of_rank)
        return slot;
    uint32_t rank = 0;
    while (rank < e->procs && e->slot_of_rank[rank] != slot)
        rank++;
    return rank;
}

uint32_t acp_mates(const acp_engine *e)
{
    uint32_t count, living = 0;
    const uint32_t *mates = rank_table_mates(e, &count);
    if (e->self < e->job.founders)
        return count; /* the founders join together */
    for (uint32_t i = 0; i < count; i++) {
        struct row row = rank_table_row(e, mates[i]);
        living += linux_process_lives(row.pid, row.start_time);
    }
    return living;
}

bool acp_ranks_of(const acp_engine *e, uint32_t first, uint32_t count, uint32_t *ranks)
{
    for (uint32_t rank = 0; e->slot_of_rank && rank < e->procs; rank++)
        if (e->slot_of_rank[rank] - first < count)
            ranks[e->slot_of_rank[rank] - first] = rank;
    return e->slot_of_rank != NULL;
}

void rank_table_close(acp_engine *e)
{
    if (e->job.table.fd >= 0)
        close(e->job.table.fd);
    e->job.table.fd = -1;
}

void rank_table_free(acp_engine *e)
{
    if (e->job.table.base)
        munmap((void *)(uintptr_t)e->job.table.base, TABLE_SIZE);
    e->job.table.base = NULL;
    e->job.table.head = NULL;
    e->slot_of_rank = NULL;
}
