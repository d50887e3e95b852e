/* An operation on its way, and the roads to the owners of memory. */
#ifndef ACP_OPERATION_H
#define ACP_OPERATION_H

#include "core/engine_state.h"

/* One end of a copy that is not global memory. */
struct place {
    unsigned char *local; /* memory of this process alone, or NULL */
    bool is_source;
};

enum op_state { OP_WAITING = 1, OP_RUNNING, OP_DONE };
enum op_way {
    WAY_NONE = 0, WAY_RUN, WAY_ASK, WAY_PUT, WAY_GET, WAY_WINDOW_PUT, WAY_WINDOW_GET, WAY_MANY,
    WAY_BATCH, WAY_CALL
};
static inline bool by_window(uint8_t way)
{
    return way == WAY_WINDOW_PUT || way == WAY_WINDOW_GET;
}

struct bounce {
    acp_ga_t ga;
    unsigned char *data;
    uint64_t at, size; /* which part of the operation it carries */
    struct bounce *next;
};

/* One operation in flight, of this process or on behalf of another. What every new one begins with
 * stands together, `handle` to `fault`. */
struct op {
    struct message command;
    acp_handle_t handle; /* even; 0: a task */
    acp_handle_t order;
    struct op *then; /* the operation that this one follows (ACP_HANDLE_CONT) */
    struct op *next;
    _Atomic uint8_t state;
    uint8_t way;
    uint8_t asked; /* the kind that the caller asked for: delivering a result is a copy */
    bool kept;     /* a task that somebody waits for and frees */
    bool awaited;  /* its caller waits, does it meanwhile, and takes its failure: nobody need be woken */
    bool rings;    /* writes a word that its owner may sleep on: never unseen by the owner */
    bool chained;  /* `then` is its order */
    bool stripped; /* the target answers with the old value, which goes to dst from here */
    bool stalled;    /* in the list of those that wait for room */
    bool barred;     /* there because somebody holds a lock that its method needs */
    bool fetched;    /* by the owner of dst, though that of src could bring it */
    bool sent_after; /* went out before `then` was done: the target keeps the order */
    struct place local; /* the caller's own memory in place of src (put) or dst (get) */
    bool backward;      /* overlapping: the last slice first */
    const struct road *road;
    struct peer *target;
    uint32_t color;
    uint64_t issued;
    uint64_t away; /* its share of bytes_away */
    uint32_t in_flight;
    struct op *followers;
    struct op *next_follower;
    struct acp_call *call; /* the caller's own */
    acp_fault fault;
    uint64_t result;
    /* a task's client */
    struct peer *client;
    struct link *client_link;
    uint64_t client_id;
    unsigned char *payload; /* that came with a command which waits here */
    uint64_t payload_size;
    struct op *parent;
    struct many *many;
    struct batch *batch;
    struct bounce *bounces;
    struct op *next_task;
};

/* A way to an owner: its ring in shared memory, or a stream. All calls with the lock held. */
struct road {
    /* Delivers a command for `op`, or a reply or a notice (op == NULL). */
    int (*send)(acp_lane *lane, struct peer *to, uint32_t color, const struct message *message);
    int (*put)(acp_lane *lane, struct op *op, uint64_t at, uint64_t size, bool silent);
    int (*get)(acp_lane *lane, struct op *op, uint64_t at, uint64_t size);
    int (*call)(acp_lane *lane, struct op *op);
    bool (*room)(acp_lane *lane, struct peer *to, uint32_t color);
    uint32_t parts; /* of one long transfer under way, at most */
    uint32_t group; /* of its parts that share an answer, if it is a put */
};
extern const struct road road_ring, road_link;

#endif
