/* The engine: global memory of one process, in native code, as the extension module calls it.
 *
 * Everything hangs on an acp_engine. A thread calls through a lane: lane 0 belongs to the thread that has the caller's
 * own lock (in Python the interpreter lock); other threads take a lane and give it back. Functions return ACP_OK or a
 * status below it; operations return a handle, or 0 with the reason in acp_lane_fault. Programs in C have acp.h, whose
 * calls take no lane. */
#ifndef ACP_ENGINE_H
#define ACP_ENGINE_H

#define ACP_ENGINE /* of acp.h the types, for its calls are other ones */
#include "base/address.h"
#include "core/acp.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct acp_engine acp_engine;

/* Becomes 1 when what goes on beside the program is done. */
typedef struct acp_flag {
    _Atomic uint32_t is;
} acp_flag;

static inline bool acp_flag_is_set(const acp_flag *flag)
{
    return atomic_load(&flag->is);
}

typedef struct acp_lane acp_lane;

#define ACP_ROW_SIZE 64

/* The commands; atomics come in the order cas swap add xor or and, 4 bytes before 8. */
typedef enum acp_kind {
    ACP_COPY = 1,
    ACP_CAS4 = 2, ACP_CAS8, ACP_SWAP4, ACP_SWAP8, ACP_ADD4, ACP_ADD8,
    ACP_XOR4, ACP_XOR8, ACP_OR4, ACP_OR8, ACP_AND4, ACP_AND8,
    ACP_CALL = 15,
    ACP_PUT = 16, ACP_GET, ACP_BATCH, ACP_REPLY,
    ACP_LOST, ACP_LEAVING, ACP_SIGNAL, ACP_PUBLISH, ACP_LOOKUP, ACP_DOING,
    ACP_GUEST, ACP_MAIL, ACP_MAIL_PART, ACP_MAIL_SAID, ACP_MAIL_WHERE, /* their contents: flow.h */
    ACP_ROWS,
    ACP_NEWS, /* a request: which ranks have gone or are leaving; the receiver reports later ones at once */
    ACP_CHANNEL, /* of ends of channels: channel_notes.c */
    ACP_DOUBT, /* by a ring: is the command still there, or was it lost? */
    ACP_SESSION = 64, ACP_ACK, ACP_PROBE, ACP_NEWCOMER, /* of links themselves */
} acp_kind;

typedef enum acp_path {
    ACP_PATH_ANY = 0, ACP_PATH_OWNER, ACP_PATH_LINK, ACP_PATH_WINDOW
} acp_path;

/* The wait in which this process is, as others see it. */
typedef enum acp_doing {
    ACP_DOING_COMPUTE = 0, ACP_DOING_COMPLETE, ACP_DOING_SYNC, ACP_DOING_BARRIER,
    ACP_DOING_WAIT_UNTIL, ACP_DOING_LOOKUP, ACP_DOING_UNREGISTER, ACP_DOING_FINALIZE,
    ACP_DOING_ENTER, ACP_DOING_RECEIVE, ACP_DOING_SEND, ACP_DOING_PROBE, ACP_DOING_COLLECTIVE,
} acp_doing;

typedef struct acp_failure {
    acp_handle_t handle;
    acp_fault fault;
    uint32_t kind;
    bool awaited; /* by a call that waits for this operation alone, and will take it */
} acp_failure;

/* Maps `length` bytes at `offset` of the memory of the process that `row` describes; a test
 * that runs several engines in one process hands out one shared mapping. */
typedef void *(*acp_map_fn)(void *context, const void *row, uint64_t offset, size_t length);

/* Called by a waiting thread that holds no lock: ACP_TICK_SIGNAL when a signal came, where
 * anything but 0 ends the wait with ACP_E_INTERRUPTED; ACP_TICK_LONG once, after a minute; ACP_TICK_ALONE:
 * all others that are known have ended, or are in finalize: not 0 if no other thread, and no other rank, is there. */
enum { ACP_TICK_SIGNAL = 0, ACP_TICK_LONG = 1, ACP_TICK_ALONE = 2 };
typedef int (*acp_tick_fn)(void *context, int reason);

/* A call of a method of an object that lives in global memory. */
struct acp_call {
    uint8_t method;
    acp_ga_t object;
    uint64_t a, b;           /* to the method, with the bytes `in` */
    const void *in;
    uint64_t in_size;
    void *out;               /* results beside `result`, at most `out_room` bytes */
    uint64_t out_room, out_size;
    uint64_t result[2];
};
#define ACP_CALL_MOST ((uint64_t)64 << 10) /* bytes each way; more is put and got separately */
typedef int (*acp_method)(acp_lane *lane, struct acp_call *call); /* its rules: method_call.h */

/* What protects the frames of links: a sum against damage; a message authentication code (AES-256-GMAC) also against
 * those who can change a connection, but do not know the job's secret; encryption (AES-256-GCM) also against those who
 * read it. By default sums on the loopback interface, and codes on networks. */
typedef enum acp_protection {
    ACP_LINKS_DEFAULT = 0,
    ACP_LINKS_CRC = 1,
    ACP_LINKS_MAC = 2,
    ACP_LINKS_ENCRYPT = 3,
} acp_protection;

typedef struct acp_config {
    uint8_t secret[32];
    uint8_t job[16];
    uint64_t node;          /* processes with equal values may share memory */
    uint64_t memory_limit;  /* bytes committed in this rank's memory at most */
    uint64_t starter_size;
    uint64_t unexpected_max; /* bytes kept here of messages without a receive; 0: a default */
    uint64_t span;          /* of offsets, at most; 0: 1 TiB */
    uint32_t host;          /* processes with equal values reach each other by loopback */
    uint32_t wide;          /* the job spans hosts: links arrive on their networks too */
    char interfaces[256];   /* only on these of them, as "eth0,ib0"; empty: on all */
    uint64_t window_size;   /* of the window part, from starter memory on; 0: none */
    uint32_t window_committed; /* all of it, for life: a network pins the memory of a window */
    uint32_t path;          /* acp_path */
    uint32_t links;         /* acp_protection; to encrypt takes OpenSSL's libcrypto, for mac it is used where it is faster */
    uint32_t links_open;    /* connections of links above which idle ones rest; 0: half of the descriptors allowed */
    uint32_t service;       /* not a rank that the program means by all */
    uint32_t ptracer;       /* let peers of the node reach registered memory at once */
    uint64_t peer_timeout_ns;
    acp_map_fn map;         /* NULL: the memory files of the peers */
    void *map_context;
    const acp_method *methods; /* 256 of them, by number; NULL: those of the containers */
    acp_tick_fn tick;       /* NULL: a signal ends the wait */
    void *tick_context;
} acp_config;

/* Start and end. acp_engine_join takes in the next `count` members of the table; its first call names the own slot. */
uint64_t acp_memory_total(void); /* bytes of this machine, or that its control groups allow this process */
int acp_engine_create(const acp_config *config, acp_engine **engine, acp_fault *fault);
void acp_engine_row(const acp_engine *engine, uint8_t row[ACP_ROW_SIZE]);
int acp_engine_join(acp_engine *engine, uint32_t count, uint32_t own_slot);
/* After the start: puts these rows into the table, and takes members with complete rows into the job. */
int acp_engine_learn(acp_engine *engine, uint32_t first, const uint8_t *rows, uint32_t count);
/* Before the first acp_engine_join, unless all of its members began the job: the slots [low, high) joined together,
 * and the first `founders` members began the job and keep its names. */
void acp_engine_joined(acp_engine *engine, uint32_t low, uint32_t high, uint32_t founders);
void acp_engine_leave(acp_engine *engine, uint32_t low, uint32_t high); /* only these will end */
/* later sync and finalize span all known members, not only those that joined together */
void acp_engine_widen(acp_engine *engine);
bool acp_known(acp_engine *engine, uint64_t rank); /* is there one, as far as can be learnt here? */
/* From here to the end of acp_engine_reset, or to acp_engine_resume in its place, no thread of the process writes to
 * another rank's mailbox: collectives and waiting sends stand still. What was on its way by link has arrived, but for
 * peers that do not answer for 3 s. When all ranks have halted, and met, each may reset. The thread that halts does not
 * send, nor wait for a message, meanwhile; callbacks of the others must not wait for it, nor, in acp_engine_reset, for
 * its locks. */
void acp_engine_halt(acp_engine *engine);
void acp_engine_resume(acp_engine *engine); /* all goes on; again: nothing */
int acp_engine_reset(acp_engine *engine, const uint32_t *slot_of_rank, uint32_t count);
/* The process ends, by SIGTERM and if need be by SIGKILL, as soon as the last writer of this pipe has closed it. The
 * engine closes `fd`. */
int acp_lifeline(acp_engine *engine, int fd);
/* Announces to all that this rank is in finalize, and, if that is so, that all it has sent has arrived: true. */
bool acp_engine_leaving(acp_engine *engine);
bool acp_engine_closed(const acp_engine *engine);
bool acp_engine_foreign(const acp_engine *engine); /* this process is a forked child */
void acp_engine_forked(acp_engine *engine);        /* called once by such a child */
void acp_engine_close(acp_engine *engine);   /* threads end, addresses die, mappings stay */
void acp_engine_free(acp_engine *engine);    /* after close: the last mapping goes */
void acp_engine_hold(acp_engine *engine);    /* one more reference to the mappings */
/* Brackets a thread's work without the interpreter lock: it may use addresses of the memory of others. */
void acp_engine_enter(acp_engine *engine);
void acp_engine_exit(acp_engine *engine);
/* Unmaps and closes the memory of processes that have ended, unless another thread is inside or a message of this
 * process is under way: then a later call does. The caller has lane 0. */
void acp_engine_bury(acp_engine *engine);

acp_lane *acp_engine_lane(acp_engine *engine); /* lane 0 */
acp_lane *acp_lane_take(acp_engine *engine);   /* NULL: all are in use, but for one that is kept */
void acp_lane_give(acp_lane *lane);
const acp_fault *acp_lane_fault(const acp_lane *lane);
void acp_lane_previous(acp_lane *lane, acp_handle_t handle); /* sets the operation that ACP_HANDLE_CONT names */

uint32_t acp_rank(const acp_engine *engine);
uint32_t acp_procs(const acp_engine *engine);
int64_t acp_slot_of(const acp_engine *engine, uint32_t rank);
/* How many ranks of the job share this node as this one joins, which counts itself; the table also
 * keeps those that have ended. */
uint32_t acp_mates(const acp_engine *engine);
/* The ranks of the slots from `first` on; false, and nothing written: each is its slot. */
bool acp_ranks_of(const acp_engine *engine, uint32_t first, uint32_t count, uint32_t *ranks);

void acp_row_of(const acp_engine *engine, uint32_t slot, uint8_t row[ACP_ROW_SIZE]);

/* The table of all members' rows, which the processes of a node share: one of them makes it by its first acp_table_add
 * and gives its place to the others, which map it before they join. */
int acp_table_add(acp_engine *engine, uint32_t first, const uint8_t *rows, uint32_t count);
int acp_table_place(const acp_engine *engine, uint8_t place[ACP_ROW_SIZE]);
int acp_table_map(acp_engine *engine, const uint8_t place[ACP_ROW_SIZE]);

/* Global memory of this rank. */
int acp_memory_alloc(acp_lane *lane, uint64_t size, uint32_t color, acp_ga_t *ga, void **address);
/* The same in the window part. ACP_E_FULL because of the part itself: the fault has `low` 1, and `high` is the largest
 * size that is free there in one piece. */
int acp_window_alloc(acp_lane *lane, uint64_t size, uint32_t color, acp_ga_t *ga, void **address);
/* Do arrays take their memory there unasked, from ACP_WINDOW_ARRAY bytes on? */
bool acp_window_keeps_arrays(const acp_engine *engine);
int acp_segment_register(acp_lane *lane, void *address, uint64_t size, uint32_t color, acp_ga_t *ga);
/* [ga, ga + size) dies at once, the rest of its segment lives on; size 0: all of it. The ticket is for
 * acp_segment_quiet, which waits until no process is inside any more. */
int acp_segment_retire(acp_lane *lane, acp_ga_t ga, uint64_t size, uint64_t *ticket);
void acp_memory_drop(acp_lane *lane, void *address, uint64_t size); /* of acp_memory_alloc */
int acp_segment_quiet(acp_engine *engine, uint64_t ticket, int64_t timeout_ns);
acp_ga_t acp_query_ga(acp_engine *engine, const void *address, uint64_t size);
int acp_query_address(acp_lane *lane, acp_ga_t ga, uint64_t size, void **address);
void acp_forget_address(acp_engine *engine, acp_ga_t ga); /* the program uses an address it asked for no longer */
acp_ga_t acp_starter(acp_engine *engine, uint32_t rank);
acp_ga_t acp_post(acp_engine *engine, uint32_t rank); /* 64 bytes for the library itself; behind them the late notes */
#define ACP_WINDOW_ARRAY ((uint64_t)1 << 20) /* the least bytes of an array that takes its memory from the window part */
#define ACP_LATE_NOTES 32u /* of two words each: late.pxi */
uint64_t *acp_late_notes(acp_engine *engine); /* those of this process */

typedef struct acp_memory_statistics {
    uint64_t limit, committed, used, starter, segments, private_segments;
} acp_memory_statistics;
void acp_memory_statistics_get(acp_engine *engine, acp_memory_statistics *out);
/* Lowers the limit of the own memory, but not below what is committed already. */
void acp_memory_lower(acp_engine *engine, uint64_t limit);

/* The heap of a rank, in bytes: blocks with their heads; the largest block that it may hand out. */
typedef struct acp_heap_statistics {
    uint64_t size, used, free, largest, blocks, fragments, committed, limit;
} acp_heap_statistics;

int acp_check(acp_lane *lane, acp_ga_t ga, uint64_t size); /* errors that this process can detect */

/* Operations. `dst` of an atomic may be null. */
acp_handle_t acp_copy(acp_lane *lane, acp_ga_t dst, acp_ga_t src, uint64_t size,
                      acp_handle_t order);
acp_handle_t acp_atomic(acp_lane *lane, acp_kind kind, acp_ga_t dst, acp_ga_t src, uint64_t value,
                        uint64_t compare, acp_handle_t order);
acp_handle_t acp_iput(acp_lane *lane, acp_ga_t dst, const void *src, uint64_t size,
                      acp_handle_t order);
/* 8 bytes that their owner may wait for: it is woken at once, whatever the road. */
acp_handle_t acp_iput_flag(acp_lane *lane, acp_ga_t dst, const void *word, acp_handle_t order);
acp_handle_t acp_iget(acp_lane *lane, void *dst, acp_ga_t src, uint64_t size, acp_handle_t order);

/* Blocking: ACP_OK when done, or a handle to wait for when the road is longer. */
int acp_put(acp_lane *lane, acp_ga_t dst, const void *src, uint64_t size, acp_handle_t *pending);
int acp_get(acp_lane *lane, void *dst, acp_ga_t src, uint64_t size, acp_handle_t *pending);
/* Only if it is done at once, else ACP_E_BUSY and nothing has happened. `old` of acp_fetch must
 * stay until the operation is done. */
int acp_fetch_here(acp_lane *lane, acp_kind kind, acp_ga_t src, uint64_t value, uint64_t compare,
                   uint64_t *old);
int acp_fetch(acp_lane *lane, acp_kind kind, acp_ga_t src, uint64_t value, uint64_t compare,
              uint64_t *old, acp_handle_t *pending);

/* Runs a method where its object is: at once if load and store reach it, else its owner does, in one round trip.
 * Memory named by `call` must stay until it is done: acp_call as acp_fetch, acp_icall as the operations above. */
int acp_call(acp_lane *lane, struct acp_call *call, acp_handle_t *pending);
acp_handle_t acp_icall(acp_lane *lane, struct acp_call *call, acp_handle_t order);

/* Memory of the heap of a rank, from any rank: as acp_call, with `call` for the answer. Also ACP_E_BUSY while another
 * process has the heap's lock: a lane taken for the purpose waits instead. */
int acp_malloc(acp_lane *lane, uint32_t rank, uint64_t size, struct acp_call *call,
               acp_handle_t *pending); /* result[0]: the address */
int acp_free(acp_lane *lane, acp_ga_t ga, struct acp_call *call,
             acp_handle_t *pending); /* result[0]: acp_heap_tidy would give memory back */
int acp_heap_tidy(acp_lane *lane, uint32_t rank, struct acp_call *call,
                  acp_handle_t *pending); /* result[0]: and still would */
int acp_heap_look(acp_lane *lane, uint32_t rank, acp_heap_statistics *out, struct acp_call *call,
                  acp_handle_t *pending);

/* A call of a container's method. Where load and store reach it a lane waits for its lock, but not
 * that of the caller, which comes again: ACP_E_BUSY. The first only if they do, else ACP_E_BUSY,
 * and nothing has happened. */
bool acp_near(acp_lane *lane, acp_ga_t ga); /* do load and store reach it? */
int acp_container_here(acp_lane *lane, struct acp_call *call);
int acp_container_call(acp_lane *lane, struct acp_call *call, acp_handle_t *pending);

/* Many at once; a stride of 0 repeats the first element. */
typedef struct acp_column {
    const char *data;
    int64_t stride;
} acp_column;
acp_handle_t acp_copy_many(acp_lane *lane, acp_column dst, acp_column src, acp_column size,
                           uint64_t count, acp_handle_t order, uint64_t *bad);
/* `old` (8 bytes an element, or NULL) receives the values before: its caller waits for them and takes the
 * error, if there is one, alone. */
acp_handle_t acp_atomic_many(acp_lane *lane, acp_kind kind, acp_column ga, acp_column value,
                             acp_column compare, uint64_t *old, uint64_t count,
                             acp_handle_t order, uint64_t *bad);

/* Completion. Times are nanoseconds from now. */
int acp_complete(acp_engine *engine, acp_handle_t handle, int64_t timeout_ns);
int acp_wait(acp_engine *engine, acp_handle_t handle, int64_t timeout_ns);
bool acp_running(const acp_engine *engine, acp_handle_t handle); /* the operation or any before it */
bool acp_done(const acp_engine *engine, acp_handle_t handle);    /* this operation alone */
bool acp_quiet(const acp_engine *engine); /* nothing outstanding and no error kept */
/* Unless `alone`, errors of awaited operations are left out. */
uint32_t acp_failures_take(acp_engine *engine, acp_handle_t upto, bool alone, acp_failure *out,
                           uint32_t most, uint64_t *more);
/* A call waits for this operation alone, or (`is` false) no longer does. Operations that acp_get, acp_put, acp_fetch
 * and the calls of methods leave pending are awaited from the beginning: until their failure is taken, or their caller
 * ends that here. */
void acp_await_alone(acp_engine *engine, acp_handle_t handle, bool is);
acp_handle_t acp_last(const acp_engine *engine); /* the last that was started and not done at once */
acp_handle_t acp_watermark(const acp_engine *engine);
int acp_wait_room(acp_engine *engine, int64_t timeout_ns);

/* A word of this process, until it compares so; woken by any operation that writes there. */
typedef struct acp_word {
    const void *address;
    uint64_t position;
    acp_ga_t ga;
    uint32_t width; /* 4 or 8 */
    bool dies;      /* its memory may, while it is waited for: ACP_E_UNREGISTERED */
} acp_word;
int acp_word_find(acp_lane *lane, acp_ga_t ga, uint32_t width, acp_word *word);
typedef struct acp_sources acp_sources; /* ranks among which the awaited one is: messages.h */
/* The loss of a rank ends it with ACP_E_LOST: a loss that is not accepted, of a rank among which the writer is (NULL:
 * all), or, with `losses` not -1, when more than these are lost. */
int acp_word_wait(acp_engine *engine, const acp_word *word, acp_compare op, uint64_t value,
                  bool is_signed, acp_sources *among, int64_t losses, int64_t timeout_ns);

/* Barrier over ranks (sorted, distinct, the caller among them); NULL: all living members, and for the last barrier
 * those that joined together. */
int acp_barrier(acp_engine *engine, const uint32_t *ranks, uint32_t count, uint32_t purpose,
                int64_t timeout_ns);
int64_t acp_trouble_rank(const acp_engine *engine); /* the rank that made acp_barrier fail */
/* Number of lost ranks, and the first `most` of them; `accepted`: only those that acp_refresh has accepted. */
uint32_t acp_lost_ranks(acp_engine *engine, bool accepted, uint32_t *out, uint32_t most);
uint32_t acp_losses(const acp_engine *engine); /* ranks that have died, or left though they were needed */
bool acp_lives(acp_engine *engine, uint32_t rank); /* as far as this process knows */
void acp_refresh(acp_engine *engine);
/* Number of services among the known ranks, and the first `most` of them. They count in no set of all members, and their
 * end is no loss. */
uint32_t acp_services(const acp_engine *engine, uint32_t *out, uint32_t most);
int acp_peer_doing(acp_engine *engine, uint32_t rank, acp_doing *doing);
/* The errno for which it cannot open a connection, for want of something of its own; 0: none. */
int acp_shortage(acp_engine *engine);
int acp_short_error(const acp_engine *engine); /* why ACP_E_SHORT */
uint32_t acp_links(acp_engine *engine, uint64_t *limit); /* open connections of links; of all open files */

/* Names of the job: 16-byte keys, 16-byte values, kept at rank key % founders. ACP_E_TAKEN: another living rank has
 * published that name, the last argument; -1: none has. ACP_E_DAMAGED: command or answer were written over, and that, or
 * value[0] of a lookup, is the rank of the keeper. */
#define ACP_REPLACE 1u /* replaces also another rank's value */
#define ACP_GIVEN 2u   /* the value is the address and size of memory by acp_memory_alloc, which goes with the name:
                        * it stays the caller's only after ACP_E_TAKEN and ACP_E_SYSTEM */
int acp_publish(acp_engine *engine, const uint64_t key[2], const uint64_t value[2], uint32_t how,
                int64_t *whose, int64_t timeout_ns);
int acp_withdraw(acp_engine *engine, const uint64_t key[2], int64_t *whose, int64_t timeout_ns);
/* Publishes the names of this process again, at the ranks that keep them in place of lost ones. */
int acp_publish_again(acp_engine *engine, int64_t *whose, int64_t timeout_ns);
void acp_names_bury(acp_lane *lane); /* frees the memory of expired names now; else the progress thread does */
int acp_lookup(acp_engine *engine, const uint64_t key[2], uint64_t value[2], int64_t timeout_ns);

/* Diagnosis. */
typedef struct acp_road_info {
    const char *road;     /* "load/store", "owner", "window", "link", "self" */
    const char *memory;   /* how its memory was opened: "proc", "socket", "-" */
    const char *registered; /* how its registered memory is reached: "process_vm", "owner", "link" */
    uint32_t lost;
} acp_road_info;
int acp_road(acp_lane *lane, uint32_t rank, acp_road_info *out);
const char *acp_status_name(int status);
uint64_t acp_now(void);

#endif
