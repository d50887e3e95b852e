/* An engine: creation, joining, reset, and queries of its ranks. Its end is in close.c. */
#include "base/linux.h"
#include "channels/channel_notes.h"
#include "collectives/background.h"
#include "core/devices.h"
#include "core/membarrier.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "core/upcalls.h"
#include "device_copies/op_relay.h"
#include "devices/cuda.h"
#include "devices/device_block.h"
#include "devices/opencl.h"
#include "membership/name_service.h"
#include "membership/team.h"
#include "memory/arena.h"
#include "messages/flows.h"
#include "messages/mailbox.h"
#include "messages/message_send_queue.h"
#include "mpi_window/window.h"
#include "operations/protocol_shm.h"
#include "peers/attach.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "peers/rank_table_append.h"
#include "progress/progress.h"
#include "transport/link_cache.h"
#include "transport/link_io.h"
#include "transport/listen.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

/* Memory that holds locks and conditions is shared only between equal C libraries. */
static uint32_t libc_tag(void)
{
    uint32_t h = 2166136261u;
    for (const char *p = gnu_get_libc_version(); *p; p++)
        h = (h ^ (uint8_t)*p) * 16777619u;
    return h;
}

/* Each peer takes up to three descriptors: a hundred ranks on a node would exceed the usual limit, and hundreds do no
 * harm where they are permitted. */
static void widen_descriptors(void)
{
    struct rlimit open_files;
    if (getrlimit(RLIMIT_NOFILE, &open_files) || open_files.rlim_cur == open_files.rlim_max)
        return;
    open_files.rlim_cur = open_files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &open_files);
}

/* In the own heap, if there is one. */
static void create_mailbox(acp_engine *e)
{
    struct heap h = {.head = (struct heap_head *)(void *)(e->memory.base + e->memory.heap_position)};
    if (e->memory.heap_span)
        mailbox_create(&h, e->config.unexpected_max);
}

static int create(acp_engine *e, acp_fault *fault)
{
    bool dead;
    e->memory.fd = e->job.table.fd = -1;
    e->progress.epoll_fd = e->progress.outer_fd = e->progress.door_fd = e->progress.timer_fd = -1;
    e->progress.lifeline_fd = e->job.giver_fd = e->job.spare_fd = -1;
    for (uint32_t i = 0; i < LISTENERS; i++)
        e->tcp.listeners[i] = -1;
    if (getrandom(&e->row.nonce, sizeof e->row.nonce, 0) != (ssize_t)sizeof e->row.nonce) {
        fault->error = errno;
        return ACP_E_SYSTEM;
    }
    widen_descriptors();
    link_cache_limit(e);
    membarrier_start(e);
    int rc = arena_create(e, fault);
    if (rc != ACP_OK)
        return rc;
    create_mailbox(e);
    e->row.node = e->config.node;
    e->row.pid = (uint32_t)getpid();
    e->row.start_time = linux_start_time(e->row.pid, &dead);
    e->row.memory_fd = e->memory.fd;
    e->row.uid = (uint32_t)geteuid();
    e->row.layout = LAYOUT_VERSION;
    e->row.flags = e->config.service ? ROW_SERVICE : 0;
    /* Not of the heap: unused slots take no memory. */
    void *ops = mmap(NULL, OPS * sizeof *e->ops.table, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    e->ops.table = ops == MAP_FAILED ? NULL : ops;
    if (!e->ops.table || progress_start(e) != ACP_OK || attach_giver_open(e) != ACP_OK ||
        listen_open(e) != ACP_OK) {
        fault->error = errno;
        return ACP_E_SYSTEM;
    }
    struct control *c = e->control;
    c->version = LAYOUT_VERSION;
    c->libc = libc_tag();
    c->nonce = e->row.nonce;
    c->start_time = e->row.start_time;
    c->pid = e->row.pid;
    c->span = e->memory.span;
    c->base = (uint64_t)(uintptr_t)e->memory.base;
    c->fences = !e->fence.can;
    c->ptracer = e->config.ptracer;
    c->door_fd = e->progress.door_fd;
    c->phase = PHASE_OPEN;
    c->magic = LAYOUT_MAGIC;
    if (e->config.ptracer)
        prctl(PR_SET_PTRACER, (unsigned long)-1, 0, 0, 0); /* refused where Yama is absent */
    struct attach_line *own = &e->doors->lines[0];
    own->pid = e->row.pid;
    own->start_time = e->row.start_time;
    own->holder = CLAIMING | e->row.pid;
    return ACP_OK;
}

int acp_engine_create(const acp_config *config, acp_engine **engine, acp_fault *fault)
{
    pthread_mutexattr_t recursive;
    acp_engine *e = linux_map(-1, 0, sizeof *e, PROT_READ | PROT_WRITE);
    *fault = (acp_fault){.rank = -1};
    if (e == MAP_FAILED)
        return fault->status = ACP_E_SYSTEM;
    e->config = *config;
    e->up = &acp_upcalls;
    e->config.node = peers_apart(e) ? config->node | NODE_APART : config->node & ~NODE_APART;
    e->ops.work_tail = &e->ops.work;
    e->ops.stalled_end = &e->ops.stalled;
    e->mail.waiting_end = &e->mail.waiting;
    e->holds = 1;
    for (uint32_t i = 0; i < ATTACH_LANES; i++)
        e->lanes[i] = (acp_lane){.engine = e, .index = i, .previous = 1};
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&e->space, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&e->progress.bell, NULL);
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->mail.lock, NULL);
    pthread_mutex_init(&e->devices.lock, NULL);
    pthread_mutex_init(&e->devices.opening, NULL);
    pthread_mutex_init(&e->copies.asking, NULL);
    acp_device_kind(e, &cuda_kind); /* drivers are loaded at the first use */
    acp_device_kind(e, &opencl_kind);
    pthread_mutex_init(&e->collectives.lock, NULL);
    pthread_mutex_init(&e->progress.leader, NULL);
    pthread_mutex_init(&e->progress.waiters_lock, NULL);
    fault->status = create(e, fault);
    if (fault->status != ACP_OK) {
        acp_engine_close(e);
        acp_engine_free(e);
        return fault->status;
    }
    *engine = e;
    return ACP_OK;
}

void acp_engine_row(const acp_engine *e, uint8_t row[ACP_ROW_SIZE])
{
    memcpy(row, &e->row, ACP_ROW_SIZE);
}

/* Are there more ranks here than processors for them? Then a polling rank takes one from another. Each rank may be
 * bound to one of its own. */
static bool crowded(acp_engine *e, bool *packed)
{
    cpu_set_t all, set;
    uint32_t count, asleep = 0;
    const uint32_t *mates = rank_table_mates(e, &count);
    CPU_ZERO(&all);
    for (uint32_t i = 0; i < count && count > (uint32_t)CPU_COUNT(&all); i++)
        if (rank_table_service(e, mates[i])) /* it sleeps */
            asleep++;
        else if (sched_getaffinity((pid_t)rank_table_row(e, mates[i]).pid, sizeof set, &set) == 0)
            CPU_OR(&all, &all, &set);
    *packed = count > (uint32_t)CPU_COUNT(&all);
    return count - asleep > (uint32_t)CPU_COUNT(&all);
}

int acp_engine_join(acp_engine *e, uint32_t count, uint32_t own_slot)
{
    bool first = !e->job.own;
    int rc = ACP_OK;
    if (!e->job.table.base || count > atomic_load(&e->job.table.head->count) - e->procs)
        return ACP_E_ARGUMENT;
    for (uint32_t i = 0; e->slot_of_rank && rc == ACP_OK && i < count; i++) {
        uint32_t slot = e->procs + i;
        rc = rank_table_append_permute(e, slot, &slot, 1);
    }
    if (rc == ACP_OK)
        rc = peers_join(e, count, own_slot);
    if (rc == ACP_OK && first)
        listen_watch(e, true);
    bool packed, now = crowded(e, &packed);
    if (!packed) /* a thread that waits without a membarrier relies on what others read in the control page */
        e->progress.packed = false;
    e->control->crowded = now;
    if (atomic_exchange(&e->control->packed, packed) != packed)
        membarrier_all(); /* a process that has not seen it yet has made its stores before */
    e->progress.crowded = now;
    e->progress.packed = packed;
    return rc;
}

static int reset(acp_engine *e, const uint32_t *slot_of, uint32_t count)
{
    bool identity = true;
    uint32_t rank = 0;
    for (uint32_t i = 0; i < count; i++) {
        identity &= slot_of[i] == i;
        if (slot_of[i] == e->self)
            rank = i;
    }
    if (count != e->procs)
        return ACP_E_ARGUMENT;
    if (!channel_notes_provide(e))
        return ACP_E_SYSTEM;
    bool written = !identity || e->slot_of_rank; /* observers find it in the table, too */
    int rc = written ? rank_table_append_permute(e, 0, slot_of, count) : ACP_OK;
    if (rc != ACP_OK)
        return rc;
    pthread_mutex_lock(&e->lock);
    link_io_take_in_all(e, NULL, (const unsigned char *)UINTPTR_MAX);
    message_send_queue_reset(e);
    arena_reset(e);
    create_mailbox(e);
    protocol_shm_close(e);
    op_relay_reset(e);
    device_block_reset(e);
    window_forget(e);
    name_service_reset(e);
    team_reset(e);
    flows_reset(e);
    channel_notes_reset(e);
    e->slot_of_rank = identity ? NULL : rank_table_slots(e);
    e->rank = rank;
    for (uint32_t i = 0; i <= LANE_LOCKED; i++)
        lane_flush(&e->lanes[i]);
    for (uint32_t i = LANE_LOCKED + 1; i < ATTACH_LANES; i++)
        atomic_store(&e->lanes[i].stale, true); /* a thread may be using it */
    pthread_mutex_unlock(&e->lock);
    return ACP_OK;
}

int acp_engine_reset(acp_engine *e, const uint32_t *slot_of, uint32_t count)
{
    background_stop(e);
    int rc = reset(e, slot_of, count);
    background_resume(e, rc == ACP_OK);
    acp_names_bury(&e->lanes[LANE_CALLER]);
    return rc;
}

bool acp_known(acp_engine *e, uint64_t rank)
{
    return newcomers_find(e, rank);
}

void acp_row_of(const acp_engine *e, uint32_t slot, uint8_t data[ACP_ROW_SIZE])
{
    struct row row = rank_table_row(e, slot);
    memcpy(data, &row, sizeof row);
}

uint32_t acp_lost_ranks(acp_engine *e, bool accepted, uint32_t *out, uint32_t most)
{
    uint32_t count = 0;
    bool any = e->job.departed || e->job.leavers;
    for (struct peer *p = NULL; any && (p = peer_next(e, p));)
        if ((accepted ? p->loss_accepted : p->lost || p->left) && count++ < most)
            out[count - 1] = rank_table_rank(e, p->slot);
    return count;
}

uint32_t acp_services(const acp_engine *e, uint32_t *out, uint32_t most)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; rank_table_services(e) && slot < e->procs; slot++)
        if (rank_table_service(e, slot) && count++ < most)
            out[count - 1] = rank_table_rank(e, slot);
    return count;
}

uint32_t acp_losses(const acp_engine *e)
{
    return e->job.losses;
}

bool acp_lives(acp_engine *e, uint32_t rank)
{
    const struct peer *p = peer_known(e, rank_slot_of(e, rank));
    return !p || (!p->lost && !p->left);
}

int64_t acp_trouble_rank(const acp_engine *e)
{
    return e->sync.trouble_rank;
}

void acp_refresh(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    uint32_t accepted = 0, departed = 0, absent = 0;
    for (struct peer *p = NULL; (p = peer_next(e, p));)
        if (p->lost || p->left) {
            p->loss_accepted = true;
            accepted += p->missed;
            departed += p->lost;
            absent++;
        }
    e->job.losses_accepted = accepted;
    e->job.departed_accepted = departed;
    e->job.absent = absent;
    pthread_mutex_unlock(&e->lock);
}
