/* Layout of shared memory: the membership row, the table of the rows, the control part of a rank's memory file and the
 * message that travels through rings and links. Everything here is untrusted after a crash: readers check bounds
 * before they use a value. */
#ifndef ACP_LAYOUT_H
#define ACP_LAYOUT_H

#include "core/engine.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define LAYOUT_MAGIC 0x314d454d50434121ull /* "!ACPMEM1" */
#define LAYOUT_VERSION 39 /* a byte; of all that processes share or send to each other */

/* The largest pages that a kernel of this processor may have: mappings begin at a multiple, on all hosts of a job
 * alike. On aarch64 kernels are built with 4, 16 or 64 KiB. */
#if !defined(PAGE)
#if defined(__aarch64__)
#define PAGE ((uint64_t)64 << 10)
#else
#define PAGE ((uint64_t)4096)
#endif
#endif

/* Offsets in the memory file. Nothing below CONTROL_SIZE has an address. */
#define CONTROL_SIZE ((uint64_t)32 << 20)
#define POST_OFFSET CONTROL_SIZE /* for the library's own exchanges: 64 bytes, then the late notes */
#define NOTICE_OFFSET (POST_OFFSET + 48) /* one of the 64 bytes' words: a notice of this rank to observers (inspect) */
#define LATE_OFFSET (POST_OFFSET + 64)
#define POST_SIZE (LATE_OFFSET + 16 * ACP_LATE_NOTES - POST_OFFSET)
#define STARTER_OFFSET (CONTROL_SIZE + PAGE)
#define PROBE_SIZE ((uint64_t)64) /* at the end of the window part: for the test of the window */
#define DOORS_OFFSET PAGE /* peers map them, and nothing else, for writing */
#define ORDER_OFFSET 0x40000
#define ENTRIES_OFFSET 0x200000
#define ENTRIES_MAX (1u << 18)

#define INBOX_CELLS 256u
#define BARRIER_ENTRIES 512u
#define ATTACH_LINES 512u
#define ATTACH_LANES 8u
#define BUSY_FLAGS (2u * ATTACH_LANES + 2u)
#define WATCHES 8u

/* A member of the job, as it stands in the membership table. */
struct row {
    uint64_t nonce;
    uint64_t node;
    uint64_t start_time; /* of the process, /proc/PID/stat field 22 */
    uint32_t pid;
    int32_t memory_fd;
    uint32_t uid;
    uint16_t port; /* of its links, network order */
    uint8_t layout;
    uint8_t flags; /* ROW_SIX and so on */
    uint8_t addresses[20]; /* IPv4, until a zero one; none: it is reached on its host only */
    uint32_t host; /* equal: reached by the loopback interface */
};

static_assert(sizeof(struct row) == 64, "a row is 64 bytes");

#define ROW_SIX 1u /* the last 16 bytes of `addresses` are an IPv6 address */
#define ROW_SAME_HOST 2u /* in a table only: the member is on its host */
#define ROW_SERVICE 4u /* a service of the job: not one of the ranks that the program means by all */

/* The table of a node: this head, then four arrays with room for every possible rank. A row there has no `host`: all
 * readers of the table are on one, and its flags tell whether the member is, too. */
struct table_head {
    uint64_t magic;
    uint32_t version;
    _Atomic uint32_t services; /* rows of services, at the most */
    uint64_t nonce; /* of the process that made it */
    uint64_t node;
    _Atomic uint32_t count; /* of rows; the other arrays may be ahead of it */
    _Atomic uint32_t nodes, mates;
};

/* Bit of the node number of ranks that treat each other as ranks of other nodes: it equals no other node's, so that
 * all agree on their road. */
#define NODE_APART ((uint64_t)1 << 63)
#define TABLE_MAGIC 0x314b4e5250434121ull /* "!ACPRNK1" */
#define TABLE_ROW offsetof(struct row, host)
#define TABLE_ROWS ((uint64_t)64) /* the first ones share the page of the head */
#define TABLE_FIRSTS (TABLE_ROWS + TABLE_ROW * (ACP_RANKS_MAX + 1))  /* the lowest slot of each node */
#define TABLE_MATES (TABLE_FIRSTS + 4ull * (ACP_RANKS_MAX + 1)) /* the slots of this node */
#define TABLE_SLOTS (TABLE_MATES + 4ull * (ACP_RANKS_MAX + 1)) /* of the ranks, after a reset */
#define TABLE_SIZE (TABLE_SLOTS + 4ull * (ACP_RANKS_MAX + 1))

static_assert(TABLE_ROW == 60, "a row of the table is 60 bytes");
static_assert(sizeof(struct table_head) <= TABLE_ROWS, "the head ends before the rows");

/* Commands and replies. `a` is the size of a copy or the value of an atomic, `b` what
 * compare-and-swap compares with, `after` the sender's operation that must be done first. A call
 * has its method in `flags`, its object in `src`, its sizes in `after` (in << 32 | room for out),
 * and on a ring the chunk with its bytes in `dst`; its reply the results and the size of out. */
struct message {
    uint8_t kind;
    uint8_t flags;
    int16_t status;
    uint32_t from; /* slot */
    uint64_t id;
    uint64_t dst, src;
    uint64_t a, b;
    uint64_t after;
};

#define PART_SILENT 1u /* flag of a put: a later part is answered for both, unless this one fails */
#define ANSWER_LATER 2u /* flag of an atomic: its caller goes on, and sends a request when it waits */
#define ANSWER_TOGETHER 4u /* flag: only completion counts; one answer for `b` of them, up to `id` */
#define MORE_FOLLOWS 1 /* status of a message without an answer: its sender may hold back those behind it until it is asked */
#define ANSWER_COUNTED 8u /* flag of a reply: the sender of the command counts those without an answer */

static_assert(sizeof(struct message) == 56, "a message and its frame head are 64 bytes");

static inline bool layout_is_atomic(uint8_t kind) { return kind >= ACP_CAS4 && kind <= ACP_AND8; }
static inline uint32_t layout_atomic_width(uint8_t kind) { return (kind & 1) ? 8 : 4; }

/* One cell of the inbox. state = turn << 32 | phase << 30 | attach line of the writer: a
 * writer that dies between claiming and publishing is known, and its cell is skipped. */
struct cell {
    _Atomic uint64_t state;
    struct message message;
};

#define CELL_FREE 0u
#define CELL_CLAIMED 1u
#define CELL_FULL 2u

/* Of the heap as much as has been used is published in its head. */
enum segment_kind {
    SEGMENT_MEMORY = 1, SEGMENT_PRIVATE = 2, SEGMENT_ALIAS = 3, SEGMENT_HEAP = 4, SEGMENT_DEVICE = 5
};

/* One region of a rank's offset space. `generation` is odd while it lives. */
struct entry {
    _Atomic uint32_t generation;
    _Atomic uint16_t kind;
    _Atomic uint16_t color;
    _Atomic uint64_t offset;
    _Atomic uint64_t length;
    _Atomic uint64_t target; /* private: the owner's virtual address; alias: the offset it names; device: in the block */
    _Atomic uint64_t pass;   /* device: offset of the struct device_pass of its block, in the memory file */
    _Atomic uint64_t serial; /* device: of the block, of all of this process */
    uint64_t reserved[2];
};

static_assert(sizeof(struct entry) == 64, "one cache line an entry");

/* Page 0: written by its owner only, read-only for the peers. */
struct control {
    uint64_t magic;
    uint32_t version;
    uint32_t libc;
    uint64_t nonce;
    uint64_t start_time;
    uint64_t span; /* bytes of offset space in use by this rank */
    uint64_t base; /* where its owner has it mapped */
    uint64_t heap_position, heap_span; /* in the file; 0: none */
    uint32_t pid;
    uint32_t ptracer;
    int32_t door_fd; /* an event counter: written to, it wakes the owner */
    _Atomic int32_t table_fd; /* of the members of the job */
    _Atomic uint64_t table_nonce; /* 0: it has not joined yet */
    _Atomic uint32_t phase;
    _Atomic uint32_t fences; /* membarrier is forbidden: every operation needs a full fence */
    _Atomic uint32_t crowded; /* more ranks than processors */
    _Atomic uint32_t packed;  /* the same, with services: the end of a message needs a full fence, too */
    _Alignas(64) _Atomic uint32_t asleep;
    _Alignas(64) _Atomic uint32_t doing; /* acp_doing, and << 8 the number of threads that wait */
    _Atomic uint32_t awaited; /* rank + 1 of the peer that owes a message or a credit; 0: not one rank */
    _Atomic uint32_t attends; /* threads, queues and closed ends that wait for notes of channels; 0: such notes have time */
    _Atomic uint32_t filling; /* messages whose bytes this rank brings to mailboxes of others now, at least */
    _Alignas(64) _Atomic uint64_t directory_version; /* odd while the order changes */
    _Atomic uint32_t directory_count;
    _Alignas(64) _Atomic uint64_t committed; /* bytes of the file, the heap left out */
};

static inline uint32_t layout_doing(const struct control *c)
{
    return c->doing & 0xff;
}

static inline uint32_t layout_doing_threads(const struct control *c)
{
    return c->doing >> 8;
}

#define FAREWELL 1u /* `a` of ACP_LEAVING: the last message of a rank */
#define ENDING 2u   /* `a` of ACP_LEAVING: the last message comes soon, but may be lost */
#define SAID_ALL 3u /* `a` of ACP_LEAVING: in finalize, and all that the rank has sent, to any rank, has arrived */
#define LOST_IN_ORDER 1u /* `b` of ACP_LOST: that rank had announced its end */
#define LOST_NOT_YET 2u  /* `b` of ACP_LOST: that rank leaves; `dst` and `src` as in ACP_LEAVING */
#define PHASE_OPEN 1u
#define PHASE_LEAVING 2u
#define PHASE_CLOSED 3u

/* Flag of `holder` beside a process id: the slot is not known yet. */
#define CLAIMING ((uint64_t)1 << 63)

struct attach_line {
    _Atomic uint64_t holder; /* slot + 1; 0: free */
    _Atomic uint64_t start_time;
    _Atomic uint32_t pid;
    _Atomic int32_t table_fd; /* where it knows the members of the job from */
    _Atomic uint64_t table_nonce, nonce; /* nonce of that table; nonce of the process */
    uint32_t spare[4];
    /* Odd while that lane is inside an access, one flag for each role of the memory in it; the last two while
     * copies of devices run, in turn (devices/device_mark.c). */
    _Atomic uint32_t busy[BUSY_FLAGS];
};

static_assert(sizeof(struct attach_line) == 128, "no two peers share a cache line");

/* What members of a set count in, as membership/barrier.c has it. */
struct barrier_entry {
    _Atomic uint64_t key;
    _Atomic uint64_t state;
    _Atomic uint32_t sleepers;
    _Atomic uint32_t culprit; /* of a damaged one: slot + 1 of the rank whose memory was written over */
    uint32_t spare[2];
};

/* A thread of the owner asleep until [low, high) changes; armed while it needs a doorbell. */
struct watch {
    _Atomic uint64_t low, high;
    _Atomic uint32_t armed;
    uint32_t spare;
};

#define LOOK_MAIL 1u /* a message of a finished context has come */
#define LOOK_DEVICES 4u /* a block of device memory that was imported ends */
#define LOOK_RING 2u /* a thread waits for so long that something may have written over the cells */
#define LOOK_SENT 8u /* or over messages of this process there */

/* The part of the control area that peers of the node write. */
struct doors {
    _Alignas(64) _Atomic uint32_t watching;
    struct watch watches[WATCHES];
    /* An event count: a ringing peer adds one, and wakes threads of the owner if any may doze. */
    _Alignas(64) _Atomic uint32_t event;
    _Atomic uint32_t dozing;
    _Atomic uint32_t looks; /* for which peers ask */
    _Atomic uint32_t channels; /* slot + 1 of the last process to change a channel for which a thread waits; 0: seen */
    _Alignas(64) _Atomic uint64_t tail; /* a hint: the state of the cells decides */
    struct attach_line lines[ATTACH_LINES];
    struct barrier_entry barriers[BARRIER_ENTRIES];
    _Alignas(4096) struct cell cells[INBOX_CELLS];
};

static_assert(DOORS_OFFSET + sizeof(struct doors) <= ORDER_OFFSET && ORDER_OFFSET % PAGE == 0,
              "no page of the doors reaches into the order");
static_assert(ORDER_OFFSET + ENTRIES_MAX * sizeof(uint32_t) <= ENTRIES_OFFSET, "order fits");
static_assert(ENTRIES_OFFSET + ENTRIES_MAX * sizeof(struct entry) <= CONTROL_SIZE, "entries fit");

static inline uint64_t layout_page_up(uint64_t n)
{
    return (n + PAGE - 1) & ~(PAGE - 1);
}

#endif
