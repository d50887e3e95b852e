/* How the table of the node grows. A process with new rows appends them, under a lock that dies with its holder, and
 * stores their number last; another process with the same rows finds them there. The first one makes the file. */
#include "peers/rank_table_append.h"
#include "base/linux.h"
#include "peers/rank_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE 16384u /* rows at a time, which bounds the memory for them */

static int table_make(acp_engine *e)
{
    struct table_head head = {.magic = TABLE_MAGIC, .version = LAYOUT_VERSION,
                              .nonce = e->row.nonce, .node = e->config.node};
    int fd = memfd_create("acp_mpi.ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return ACP_E_SYSTEM;
    if (linux_file_resize(fd, TABLE_SIZE) || linux_file_write(fd, 0, &head, sizeof head) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
        rank_table_map(e, fd) != ACP_OK) {
        close(fd);
        return ACP_E_SYSTEM;
    }
    return ACP_OK;
}

/* A record lock belongs to the process and goes with it. Its holder appends and does nothing else: on a busy
 * machine that takes as long as it takes. */
static int lock(const acp_engine *e)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int rc;
    do
        rc = fcntl(e->job.table.fd, F_SETLKW, &all);
    while (rc && errno == EINTR);
    return rc ? ACP_E_SYSTEM : ACP_OK;
}

static void unlock(const acp_engine *e)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(e->job.table.fd, F_SETLK, &all);
}

/* Nodes that have a row already: an open hash of their lowest slots + 1. */
struct node_set {
    const acp_engine *engine;
    const struct row *rows; /* from slot `first` on */
    uint32_t first;
    uint32_t *buckets;
    uint32_t mask;
};

static uint64_t node_at(const struct node_set *s, uint32_t slot)
{
    return slot < s->first ? rank_table_node(s->engine, slot) : s->rows[slot - s->first].node;
}

/* Whether the node of `slot` is new. */
static bool enter_node(struct node_set *s, uint32_t slot)
{
    uint64_t node = node_at(s, slot);
    uint32_t i = (uint32_t)(node * 0x9e3779b97f4a7c15ull >> 40) & s->mask;
    for (; s->buckets[i]; i = (i + 1) & s->mask)
        if (node_at(s, s->buckets[i] - 1) == node)
            return false;
    s->buckets[i] = slot + 1;
    return true;
}

struct scratch {
    unsigned char *packed;
    uint32_t *firsts, *mates, *buckets;
};

static int append_with(acp_engine *e, uint32_t first, const struct row *rows, uint32_t count,
                       struct scratch *scratch, uint32_t mask)
{
    uint32_t had_nodes, had_mates, nodes = 0, mates = 0, services = 0;
    /* Below `first`: a writer that died may have left more. */
    const uint32_t *firsts = rank_table_below(e, TABLE_FIRSTS, e->job.table.head->nodes, first, &had_nodes);
    rank_table_below(e, TABLE_MATES, e->job.table.head->mates, first, &had_mates);
    struct node_set set = {e, rows, first, scratch->buckets, mask};
    for (uint32_t i = 0; i < had_nodes; i++)
        enter_node(&set, firsts[i]);
    for (uint32_t i = 0; i < count; i++) {
        rank_table_pack(e, &rows[i], scratch->packed + i * TABLE_ROW);
        if (enter_node(&set, first + i))
            scratch->firsts[nodes++] = first + i;
        if (rows[i].node == e->config.node)
            scratch->mates[mates++] = first + i;
        services += (rows[i].flags & ROW_SERVICE) != 0;
    }
    int fd = e->job.table.fd;
    if (linux_file_write(fd, TABLE_ROWS + (uint64_t)first * TABLE_ROW, scratch->packed,
                  count * TABLE_ROW) ||
        linux_file_write(fd, TABLE_FIRSTS + 4ull * had_nodes, scratch->firsts, 4ull * nodes) ||
        linux_file_write(fd, TABLE_MATES + 4ull * had_mates, scratch->mates, 4ull * mates))
        return ACP_E_SYSTEM;
    struct table_head *head = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (head == MAP_FAILED)
        return ACP_E_SYSTEM;
    atomic_fetch_add(&head->services, services); /* a writer that died may have added, too */
    atomic_store(&head->nodes, had_nodes + nodes);
    atomic_store(&head->mates, had_mates + mates);
    atomic_store(&head->count, first + count);
    munmap(head, PAGE);
    return ACP_OK;
}

static int rows_append(acp_engine *e, uint32_t first, const struct row *rows, uint32_t count)
{
    uint32_t room = 16;
    while (room < 2 * (e->job.table.head->nodes + count))
        room *= 2;
    struct scratch s = {malloc(count * TABLE_ROW), malloc(count * 4ull), malloc(count * 4ull),
                        calloc(room, 4)};
    int rc = ACP_E_SYSTEM;
    if (s.packed && s.firsts && s.mates && s.buckets)
        rc = append_with(e, first, rows, count, &s, room - 1);
    free(s.packed);
    free(s.firsts);
    free(s.mates);
    free(s.buckets);
    return rc;
}

/* Equal but for the flag of the same host, which rows from another host do not have. */
static bool same_member(unsigned char *packed, const unsigned char *there)
{
    size_t flags = offsetof(struct row, flags);
    packed[flags] = (uint8_t)((packed[flags] & ~ROW_SAME_HOST) | (there[flags] & ROW_SAME_HOST));
    return memcmp(packed, there, TABLE_ROW) == 0;
}

static int rows_join(acp_engine *e, uint32_t first, const struct row *rows, uint32_t count)
{
    int rc = lock(e);
    if (rc != ACP_OK)
        return rc;
    uint32_t have = atomic_load(&e->job.table.head->count), i = 0;
    if (first > have)
        rc = ACP_E_ARGUMENT;
    for (; rc == ACP_OK && i < count && first + i < have; i++) {
        unsigned char packed[TABLE_ROW];
        rank_table_pack(e, &rows[i], packed);
        if (!same_member(packed, rank_table_bytes(e, first + i)))
            rc = ACP_E_ARGUMENT;
    }
    if (rc == ACP_OK && i < count)
        rc = rows_append(e, first + i, rows + i, count - i);
    unlock(e);
    return rc;
}

int acp_table_add(acp_engine *e, uint32_t first, const uint8_t *rows, uint32_t count)
{
    if (first > ACP_RANKS_MAX || count > ACP_RANKS_MAX - first)
        return ACP_E_ARGUMENT;
    int rc = e->job.table.base ? ACP_OK : table_make(e);
    struct row *piece = malloc((count < PIECE ? count : PIECE) * sizeof *piece + 1);
    if (rc == ACP_OK && !piece)
        rc = ACP_E_SYSTEM;
    for (uint32_t done = 0, n; rc == ACP_OK && done < count; done += n) {
        n = count - done < PIECE ? count - done : PIECE;
        memcpy(piece, rows + (uint64_t)done * ACP_ROW_SIZE, n * sizeof *piece);
        rc = rows_join(e, first + done, piece, n);
    }
    free(piece);
    return rc;
}

/* Which slots the ranks from `first` on have. After a reset all processes of the node write the same. */
int rank_table_append_permute(acp_engine *e, uint32_t first, const uint32_t *slots, uint32_t count)
{
    int rc = linux_file_write(e->job.table.fd, TABLE_SLOTS + 4ull * first, slots, 4ull * count);
    return rc ? ACP_E_SYSTEM : ACP_OK;
}
