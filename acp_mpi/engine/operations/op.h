/* Operations on their way: the table, the executor, the roads and what arrives on them. */
#ifndef ACP_OP_H
#define ACP_OP_H

#include "operations/op_table.h"
#include "progress/progress.h"
#include "memory/translate.h"
#include "mpi_window/window.h"

/* execute.c: the one function that executes a command on memory in reach. Of a copy it does
 * the part [from, from + size); `local` stands for src or dst of a copy. *result: an atomic's old
 * value; a copy with an end in `local`, unless NULL, extends it by the CRC-32C of its bytes.
 * ACP_E_BUSY: the fast way was refused just now, ask the router again. */
int command_run(acp_lane *lane, const struct message *command, struct place local, uint64_t from,
                uint64_t size, uint64_t *result);
/* Must the parts of a copy go from the last to the first, as memmove would do it? NULL: elsewhere. */
static inline bool goes_backward(const unsigned char *to, const unsigned char *from, uint64_t size)
{
    return to && from && to > from && to < from + size;
}
int copy_loaded(acp_lane *lane, const struct translation *d, acp_ga_t dst,
                const struct translation *s, acp_ga_t src, uint64_t size);
int write_loaded(acp_lane *lane, const struct translation *d, acp_ga_t dst, const void *src,
                 uint64_t size);
int read_loaded(acp_lane *lane, void *dst, const struct translation *s, acp_ga_t src,
                uint64_t size);
/* Another thread may be changing the column: what is checked must be what is used. */
static inline uint64_t at(acp_column c, uint64_t i)
{
    uint64_t value;
    __builtin_memcpy(&value, c.data + (int64_t)i * c.stride, sizeof value);
    __asm__("" : "+r"(value)); /* read once */
    return value;
}
uint64_t atomics_loaded(acp_lane *lane, uint8_t kind, const struct translation *s, acp_column ga,
                        acp_column value, acp_column compare, uint64_t *old, uint64_t i,
                        uint64_t count);
int atomic_loaded(acp_lane *lane, uint8_t kind, const struct translation *s, acp_ga_t src,
                  uint64_t value, uint64_t compare, uint64_t *old);
static inline bool is_atomic(uint8_t kind) { return kind >= ACP_CAS4 && kind <= ACP_AND8; }
static inline uint32_t atomic_width(uint8_t kind) { return (kind & 1) ? 8 : 4; }

/* op_table.c: all with the lock held */
struct op *op_new(acp_lane *lane); /* NULL: ACP_E_BUSY in the fault */
struct op *task_new(acp_engine *e);
void task_free(acp_engine *e, struct op *op);
void operations_close(acp_engine *e);
struct op *op_find(acp_engine *e, uint64_t id);
uint64_t op_id(const struct op *op);
void op_finish(acp_lane *lane, struct op *op);
/* `target` has run so many operations, one after the other, up to that one. */
void ops_done(acp_lane *lane, const struct peer *target, uint64_t last, uint32_t count);
/* It is one of a chain of atomics, and nobody wants to know more of it than that it is done. */
static inline bool op_tells_nothing(const struct op *op)
{
    return op->chained && op->handle && is_atomic(op->command.kind) &&
           op->command.dst == ACP_GA_NULL && !op->local.local;
}
void op_fault(struct op *op, const acp_fault *fault); /* the first one stays */
acp_handle_t op_submit(acp_lane *lane, struct op *op, acp_handle_t order);
void ops_fail_peer(acp_lane *lane, struct peer *p);
bool order_met_slow(acp_engine *e, const acp_lane *lane, acp_handle_t order);
static inline bool order_met(acp_engine *e, const acp_lane *lane, acp_handle_t order)
{
    return likely(order == ACP_HANDLE_NULL) ||
           likely(!atomic_load_explicit(&e->outstanding, memory_order_acquire) &&
                  !atomic_load_explicit(&e->failure_count, memory_order_relaxed)) ||
           order_met_slow(e, lane, order);
}
static inline acp_handle_t handle_now(acp_engine *e)
{
    return atomic_load_explicit(&e->last, memory_order_relaxed) | 1;
}

/* op_errors.c: with the lock held */
void failure_keep(acp_engine *e, const struct op *op);
const acp_failure *failure_before(const acp_engine *e, acp_handle_t upto, bool alone);
void failures_close(acp_engine *e);

/* completion.c: the number of a queued operation; 0: there is none yet that it could mean */
acp_handle_t handle_resolve(const acp_engine *e, acp_handle_t handle);

/* pending.c: with the lock held */
void op_stall(acp_engine *e, struct op *op);
void op_unstall(acp_engine *e, struct op *op);
void op_bar(acp_lane *lane, struct op *op);
void ops_pump(acp_lane *lane);

/* route.c: the one function that decides which way an operation goes */
struct plan {
    enum op_way way;
    const struct road *road;
    struct peer *target;
    uint32_t color;
    bool strip;
    bool backward;
    bool halves; /* both owners can do it, each one half */
};
int route(acp_lane *lane, const struct op *op, struct plan *plan);
const struct road *road_to(acp_engine *e, struct peer *p);

/* protocol.c: the steps of each way */
void op_start(acp_lane *lane, struct op *op);
void op_push(acp_lane *lane, struct op *op); /* more chunks, while there is room */
void op_reply(acp_lane *lane, struct op *op, const struct message *m,
              const unsigned char *payload, uint64_t size);
bool op_start_behind(acp_lane *lane, struct op *op);
void op_fault_from_lane(acp_lane *lane, struct op *op);
int part_read(acp_lane *lane, struct op *op, uint64_t at, uint64_t size, unsigned char *buffer,
              uint64_t *sum);
int part_write(acp_lane *lane, struct op *op, uint64_t at, uint64_t size,
               const unsigned char *buffer);

/* op_background.c */
bool work_step(acp_lane *lane); /* takes the lock itself */
void work_add(acp_engine *e, struct op *op);
struct op *work_take(acp_engine *e);
struct op *work_claim(acp_engine *e, acp_handle_t handle);

/* target.c: what arrives */
void message_arrived(acp_lane *lane, struct peer *from, struct link *link,
                     const struct message *m, const unsigned char *payload, uint64_t size);
/* A put has been run, with that result. */
void put_served(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                int rc);
void task_reply(acp_lane *lane, struct op *op);
void task_serve(acp_lane *lane, struct op *op);
void serve_reply(acp_lane *lane, struct peer *to, struct link *link,
                 const struct message *command, uint64_t value);
void serve_failure(acp_lane *lane, struct peer *to, struct link *link,
                   const struct message *command); /* the lane's fault */

/* notices.c: who is gone, or leaves; with the lock held */
void notify_all(acp_lane *lane, const struct message *m); /* whoever this process is in touch with */
struct message loss_of(const acp_engine *e, const struct peer *p);
struct message parting_of(const acp_engine *e, const struct peer *p);
void loss_heard(acp_lane *lane, const struct message *m);
/* To one that was in touch with nobody here: what all others were told, as far as somebody may miss it. */
void say_news(acp_lane *lane, struct peer *to, struct link *link);

/* vector.c */
void many_push(acp_lane *lane, struct op *op);
void many_child_done(acp_lane *lane, struct op *child);
bool many_halves(acp_lane *lane, struct op *op); /* false: no memory, nothing has happened */

/* batch.c */
void batch_reply(acp_lane *lane, struct op *child, const unsigned char *payload, uint64_t size);
int batch_run(acp_lane *lane, const struct message *m, struct acp_call *c);

/* remote_call.c: calls, with the lock held */
void call_run(acp_lane *lane, struct op *op); /* here */
void call_send(acp_lane *lane, struct op *op);
struct message call_message(const acp_lane *lane, const struct op *op);
void call_reply(acp_lane *lane, struct op *op, const struct message *m,
                const unsigned char *payload, uint64_t size);
int call_serve(acp_lane *lane, const struct link *link, const struct message *m,
               struct acp_call *c);

/* shm_ring.c */
/* To take the lock and to give it back, for who submits an operation. Whom that wakes is rung for
 * afterwards: woken on this processor it runs at once, and its answer needs the lock. */
void submission_begin(acp_engine *e);
void submission_end(acp_engine *e);
bool inbox_drain(acp_lane *lane);
bool inbox_waiting(const acp_engine *e);
bool inbox_claimed(const acp_engine *e);
bool backlog_push(acp_lane *lane);
void backlog_free(struct peer *p);
bool backlog_provide(acp_engine *e); /* some entries are kept for answers; false: no memory */
void backlog_close(acp_engine *e);
struct bounce *bounce_of(struct op *op, const struct message *reply);
void bounce_give(acp_engine *e, struct op *op, struct bounce *b);
void inbox_close(acp_engine *e);

#endif
