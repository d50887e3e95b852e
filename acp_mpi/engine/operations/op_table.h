/* An operation on its way, and the roads to the owners of memory. */
#ifndef ACP_OP_TABLE_H
#define ACP_OP_TABLE_H

#include "base/likely.h"
#include "core/engine_state.h"
#include "core/upcalls.h"
#include "operations/execute.h"

struct batch;
struct device_job;
struct link;
struct many;
struct peer;

enum op_state { OP_WAITING = 1, OP_RUNNING, OP_DONE };

enum op_way {
    WAY_NONE = 0, WAY_RUN, WAY_ASK, WAY_PUT, WAY_GET, WAY_WINDOW_PUT, WAY_WINDOW_GET, WAY_MANY,
    WAY_BATCH, WAY_CALL, WAY_DEVICE, WAY_RELAY
};

static inline bool op_table_by_window(uint8_t way)
{
    return way == WAY_WINDOW_PUT || way == WAY_WINDOW_GET;
}

struct bounce {
    acp_ga_t ga;
    unsigned char *data;
    uint64_t at, size; /* the part of the operation in it */
    struct bounce *next;
};

/* One operation in flight, of this process or on behalf of another. Fields that each new one sets stand together,
 * `order` to `fault`; threads without the lock read its handle and its state. */
struct op {
    struct message command;
    _Atomic acp_handle_t handle; /* even; 0: a task */
    _Atomic uint8_t state;
    acp_handle_t order;
    struct op *then; /* the operation that this one follows (ACP_HANDLE_CONT) */
    struct op *next;
    uint8_t way;
    uint8_t asked; /* the kind of the caller's call: delivering a result is a copy */
    bool kept;     /* a task that a thread waits for and frees */
    bool awaited;  /* its caller waits, does it meanwhile, and takes its failure: no wake-up is needed */
    bool rings;    /* writes a word that its owner may sleep on: never unseen by the owner */
    bool chained;  /* `then` is its order */
    bool stripped; /* the target answers with the old value, which goes to dst from here */
    bool stalled;    /* in the list of stalled operations */
    bool barred;     /* stalled because another holds a lock that its method needs */
    bool fetched;    /* brought by the owner of dst, though the owner of src could, too */
    bool sent_after; /* went out before `then` was done: the target keeps the order */
    struct place local; /* the caller's own memory in place of src (put) or dst (get) */
    bool backward;      /* overlapping: the last slice first */
    const struct road *road;
    struct peer *target;
    uint32_t color;
    uint64_t issued;
    uint64_t away; /* part of bytes_away, bytes */
    uint32_t in_flight;
    struct op *followers;
    struct op *next_follower;
    struct acp_call *call; /* of the caller */
    struct device_job *job; /* with device memory at an end; NULL: none */
    acp_fault fault;
    uint64_t result;
    /* of a task: the process that sent it */
    struct peer *client;
    struct link *client_link;
    uint64_t client_id;
    unsigned char *payload; /* of a task: bytes that came with the command */
    uint64_t payload_size;
    struct op *parent;
    struct many *many;
    struct batch *batch;
    struct bounce *bounces;
    struct op *next_task;
};

/* A protocol to an owner: its ring in shared memory, or a stream. All calls with the lock held. */
struct road {
    /* Delivers a command for `op`, or a reply or a notice (op == NULL). */
    int (*send)(acp_lane *lane, struct peer *to, uint32_t color, const struct message *message);
    int (*put)(acp_lane *lane, struct op *op, uint64_t at, uint64_t size, bool silent);
    int (*get)(acp_lane *lane, struct op *op, uint64_t at, uint64_t size);
    int (*call)(acp_lane *lane, struct op *op);
    bool (*room)(acp_lane *lane, struct peer *to, uint32_t color);
    uint32_t parts; /* most parts of one long transfer under way */
    uint32_t group; /* of a put: parts that share an answer */
};

/* All with the lock held */
struct op *op_table_new(acp_lane *lane); /* NULL: ACP_E_BUSY in the fault */
void op_table_close(acp_engine *e);
struct op *op_table_find(acp_engine *e, uint64_t id);
void op_table_finish(acp_lane *lane, struct op *op);
/* `target` has run `count` operations, one after the other, up to `last`. */
void op_table_done(acp_lane *lane, const struct peer *target, uint64_t last, uint32_t count);

/* An atomic of a chain of which only the completion counts. */
static inline bool op_table_tells_nothing(const struct op *op)
{
    return op->chained && op->handle && layout_is_atomic(op->command.kind) &&
           op->command.dst == ACP_GA_NULL && !op->local.local;
}

static inline uint64_t op_table_id(const struct op *op)
{
    return op->handle ? op->handle : op->order;
}

/* The first fault stays. */
static inline void op_table_fault(struct op *op, const acp_fault *fault)
{
    if (op->fault.status == ACP_OK)
        op->fault = *fault;
}

acp_handle_t op_table_submit(acp_lane *lane, struct op *op, acp_handle_t order);
void op_table_fail_peer(acp_lane *lane, struct peer *p);
/* No answer will come. False: the operation is in the list of work, and ends there. */
bool op_table_lose(acp_lane *lane, struct op *op, acp_fault *fault);
bool op_table_order_met_slow(acp_engine *e, const acp_lane *lane, acp_handle_t order);

static inline bool op_table_order_met(acp_engine *e, const acp_lane *lane, acp_handle_t order)
{
    return likely(order == ACP_HANDLE_NULL) ||
           likely(!atomic_load_explicit(&e->ops.outstanding, memory_order_acquire) &&
                  !atomic_load_explicit(&e->ops.failure_count, memory_order_relaxed)) ||
           op_table_order_met_slow(e, lane, order);
}

static inline acp_handle_t op_table_now(acp_engine *e)
{
    return atomic_load_explicit(&e->ops.last, memory_order_relaxed) | 1;
}

/* Starts the copies of devices that a submission has added; without the lock. */
static inline void op_table_run_devices(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    if (unlikely(atomic_load_explicit(&e->copies.waits, memory_order_relaxed)))
        e->up->device_run(lane);
}

#endif
