/* Who belongs to the job, once per node: a sealed sparse memory file that one process makes and
 * the others of the node map, read-only. The table only grows. Whoever has rows that are not there
 * yet appends them, under a lock that dies with its holder, and says last how many there are; who
 * comes with the same rows finds them there. The file has its full size from the start, so that
 * no mapping of it ever meets SIGBUS, and lives as long as anybody has it mapped. */
#include "op.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PIECE 16384u /* rows appended at a time: what that needs is all that it needs */
#define LOCK_NS ((uint64_t)5000000000)

static const unsigned char *bytes_of(const acp_engine *e, uint32_t slot)
{
    return e->table.base + TABLE_ROWS + (uint64_t)slot * TABLE_ROW;
}

uint64_t table_node(const acp_engine *e, uint32_t slot)
{
    uint64_t node;
    memcpy(&node, bytes_of(e, slot) + offsetof(struct row, node), sizeof node);
    return node;
}

static struct row unpack(const acp_engine *e, const unsigned char *packed)
{
    struct row row;
    memcpy(&row, packed, TABLE_ROW);
    row.host = row.six & TABLE_SAME_HOST ? e->config.host : ~e->config.host;
    row.six &= TABLE_SIX;
    return row;
}

struct row table_row(const acp_engine *e, uint32_t slot)
{
    return unpack(e, bytes_of(e, slot));
}

/* Rows of another table of this node. */
bool table_read(const acp_engine *e, int fd, uint32_t first, struct row *rows, uint32_t count)
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

static void pack(const acp_engine *e, const struct row *row, unsigned char *out)
{
    struct row packed = *row;
    packed.six = (row->six ? TABLE_SIX : 0) | (row->host == e->config.host ? TABLE_SAME_HOST : 0);
    memcpy(out, &packed, TABLE_ROW);
}

/* How many of `have` rising slots are below `limit`. */
static const uint32_t *below(const acp_engine *e, uint64_t array, uint32_t have, uint32_t limit,
                             uint32_t *count)
{
    const uint32_t *slots = (const uint32_t *)(const void *)(e->table.base + array);
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

const uint32_t *table_firsts(const acp_engine *e, uint32_t *count)
{
    return below(e, TABLE_FIRSTS, e->table.head->nodes, e->procs, count);
}

const uint32_t *table_mates(const acp_engine *e, uint32_t *count)
{
    return below(e, TABLE_MATES, e->table.head->mates, e->procs, count);
}

static int map(acp_engine *e, int fd)
{
    void *base = mmap(NULL, TABLE_SIZE, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        return ACP_E_SYSTEM;
    e->table = (struct table){fd, base, base};
    return ACP_OK;
}

static bool write_at(int fd, uint64_t at, const void *data, uint64_t size)
{
    const char *from = data;
    while (size) {
        ssize_t n = pwrite(fd, from, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        from += n;
        at += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return true;
}

static int make(acp_engine *e)
{
    struct table_head head = {.magic = TABLE_MAGIC, .version = LAYOUT_VERSION,
                              .nonce = e->row.nonce, .node = e->config.node};
    int fd = memfd_create("acp_mpi.ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return ACP_E_SYSTEM;
    if (ftruncate(fd, (off_t)TABLE_SIZE) || !write_at(fd, 0, &head, sizeof head) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
        map(e, fd) != ACP_OK) {
        close(fd);
        return ACP_E_SYSTEM;
    }
    return ACP_OK;
}

/* A table of this layout and this node, made by the process with that nonce. */
bool table_genuine(const acp_engine *e, int fd, uint64_t nonce)
{
    struct stat st;
    struct table_head head;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != TABLE_SIZE)
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
    if (e->table.fd < 0 || e->table.head->nonce != e->row.nonce)
        return ACP_E_ARGUMENT;
    row.memory_fd = e->table.fd;
    memcpy(place, &row, sizeof row);
    return ACP_OK;
}

int acp_table_map(acp_engine *e, const uint8_t place[ACP_ROW_SIZE])
{
    struct row row;
    memcpy(&row, place, sizeof row);
    if (e->table.base)
        return ACP_E_ARGUMENT;
    pthread_mutex_lock(&e->space);
    int fd = attach_table(e, &row, row.nonce);
    int rc = fd < 0 ? ACP_E_SYSTEM : map(e, fd);
    if (fd >= 0 && rc != ACP_OK)
        close(fd);
    pthread_mutex_unlock(&e->space);
    return rc;
}

/* A record lock belongs to the process and goes with it. Its holder appends and does nothing else,
 * unless it has been stopped there. */
static int lock(const acp_engine *e)
{
    uint64_t until = now_ns() + LOCK_NS;
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    while (fcntl(e->table.fd, F_SETLK, &all)) {
        struct timespec soon = {.tv_nsec = 1000000};
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return ACP_E_SYSTEM;
        if (now_ns() >= until)
            return ACP_E_TIMEOUT;
        nanosleep(&soon, NULL);
    }
    return ACP_OK;
}

static void unlock(const acp_engine *e)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(e->table.fd, F_SETLK, &all);
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
    return slot < s->first ? table_node(s->engine, slot) : s->rows[slot - s->first].node;
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
    uint32_t had_nodes, had_mates, nodes = 0, mates = 0;
    /* Below `first`: a writer that died may have left more. */
    const uint32_t *firsts = below(e, TABLE_FIRSTS, e->table.head->nodes, first, &had_nodes);
    below(e, TABLE_MATES, e->table.head->mates, first, &had_mates);
    struct node_set set = {e, rows, first, scratch->buckets, mask};
    for (uint32_t i = 0; i < had_nodes; i++)
        enter_node(&set, firsts[i]);
    for (uint32_t i = 0; i < count; i++) {
        pack(e, &rows[i], scratch->packed + i * TABLE_ROW);
        if (enter_node(&set, first + i))
            scratch->firsts[nodes++] = first + i;
        if (rows[i].node == e->config.node)
            scratch->mates[mates++] = first + i;
    }
    int fd = e->table.fd;
    if (!write_at(fd, TABLE_ROWS + (uint64_t)first * TABLE_ROW, scratch->packed,
                  count * TABLE_ROW) ||
        !write_at(fd, TABLE_FIRSTS + 4ull * had_nodes, scratch->firsts, 4ull * nodes) ||
        !write_at(fd, TABLE_MATES + 4ull * had_mates, scratch->mates, 4ull * mates))
        return ACP_E_SYSTEM;
    struct table_head *head = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (head == MAP_FAILED)
        return ACP_E_SYSTEM;
    atomic_store(&head->nodes, had_nodes + nodes);
    atomic_store(&head->mates, had_mates + mates);
    atomic_store(&head->count, first + count);
    munmap(head, PAGE);
    return ACP_OK;
}

static int append(acp_engine *e, uint32_t first, const struct row *rows, uint32_t count)
{
    uint32_t room = 16;
    while (room < 2 * (e->table.head->nodes + count))
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

/* Who had the row from another host did not hear which host that member is on. */
static bool same_member(unsigned char *packed, const unsigned char *there)
{
    size_t six = offsetof(struct row, six);
    packed[six] = (packed[six] & TABLE_SIX) | (there[six] & TABLE_SAME_HOST);
    return memcmp(packed, there, TABLE_ROW) == 0;
}

static int add(acp_engine *e, uint32_t first, const struct row *rows, uint32_t count)
{
    int rc = lock(e);
    if (rc != ACP_OK)
        return rc;
    uint32_t have = atomic_load(&e->table.head->count), i = 0;
    if (first > have)
        rc = ACP_E_ARGUMENT;
    for (; rc == ACP_OK && i < count && first + i < have; i++) {
        unsigned char packed[TABLE_ROW];
        pack(e, &rows[i], packed);
        if (!same_member(packed, bytes_of(e, first + i)))
            rc = ACP_E_ARGUMENT;
    }
    if (rc == ACP_OK && i < count)
        rc = append(e, first + i, rows + i, count - i);
    unlock(e);
    return rc;
}

int acp_table_add(acp_engine *e, uint32_t first, const uint8_t *rows, uint32_t count)
{
    if (first > ACP_RANKS_MAX || count > ACP_RANKS_MAX - first)
        return ACP_E_ARGUMENT;
    int rc = e->table.base ? ACP_OK : make(e);
    struct row *piece = malloc((count < PIECE ? count : PIECE) * sizeof *piece + 1);
    if (rc == ACP_OK && !piece)
        rc = ACP_E_SYSTEM;
    for (uint32_t done = 0, n; rc == ACP_OK && done < count; done += n) {
        n = count - done < PIECE ? count - done : PIECE;
        memcpy(piece, rows + (uint64_t)done * ACP_ROW_SIZE, n * sizeof *piece);
        rc = add(e, first + done, piece, n);
    }
    free(piece);
    return rc;
}

/* Which slots the ranks from `first` on have. After a reset all processes of the node write the same. */
int table_permute(acp_engine *e, uint32_t first, const uint32_t *slots, uint32_t count)
{
    bool done = write_at(e->table.fd, TABLE_SLOTS + 4ull * first, slots, 4ull * count);
    return done ? ACP_OK : ACP_E_SYSTEM;
}

uint32_t rank_of_slot(const acp_engine *e, uint32_t slot)
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
    const uint32_t *mates = table_mates(e, &count);
    if (e->self < e->founders)
        return count; /* they come together */
    for (uint32_t i = 0; i < count; i++) {
        struct row row = table_row(e, mates[i]);
        living += process_lives(row.pid, row.start_time);
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

void table_close(acp_engine *e)
{
    if (e->table.fd >= 0)
        close(e->table.fd);
    e->table.fd = -1;
}

void table_free(acp_engine *e)
{
    if (e->table.base)
        munmap((void *)(uintptr_t)e->table.base, TABLE_SIZE);
    e->table.base = NULL;
    e->table.head = NULL;
    e->slot_of_rank = NULL;
}
