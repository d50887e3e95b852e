/* The calls from a room to rooms above it. No other call points up: an engine gets this table once, when
 * it is created (upcalls.c), and it never changes. */
#ifndef ACP_UPCALLS_H
#define ACP_UPCALLS_H

#include "core/layout.h"
#include "core/poller.h"

struct acp_device_block;
struct device_job;
struct heap;
struct link;
struct op;
struct peer;
struct wire;

typedef void message_handler(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                             const unsigned char *payload, uint64_t size);

struct upcalls {
    /* of core and peers */
    void (*destroy)(acp_engine *e); /* the last user has let go of it */
    int (*join)(acp_engine *e, uint32_t count, uint32_t own_slot);

    /* of progress: the parts of a leader's round, in their order, each list up to one without functions. Parts of
     * the first run with the lock held, and after a ring whether they are due or not. */
    const struct poller *locked, *unlocked;
    void (*release)(acp_engine *e);          /* frames that wait for company go out */
    void (*ask)(acp_engine *e);              /* the same, and peers are asked for answers that have time: a caller waits */
    void (*ask_more)(acp_engine *e);         /* peers are asked for messages that they hold back */
    void (*watch)(acp_engine *e);            /* a caller waits for long: registers for deaths */
    void (*doubt)(acp_engine *e);            /* and ever longer: commands or messages may have been lost */
    bool (*short_lasts)(acp_engine *e);      /* descriptors or memory have run out, and still do */
    void (*pause)(acp_engine *e);            /* between two looks at MPI */
    void (*giver_ready)(acp_engine *e);      /* with the lock held, as all that follow */
    void (*listener_ready)(acp_lane *lane);
    void (*wire_ready)(acp_lane *lane, uint32_t number, uint32_t events);
    bool (*talker_ask)(acp_lane *lane);      /* reads the connection that mostly brings the next input */
    void (*peer_ended)(acp_engine *e, uint32_t slot);
    void (*tick)(acp_lane *lane, uint64_t late); /* the timer has rung, `late` ns after it was due */
    void (*flush)(acp_lane *lane);           /* the same, for frames that are held back */
    void (*settle)(acp_lane *lane);          /* after events */

    /* of peers, with the lock held: what needs a dead peer fails; then, after all that have died: */
    void (*lost)(acp_lane *lane, struct peer *p);
    void (*guard)(acp_engine *e);

    /* of memory: bytes between these addresses may end, NULL to the highest: all */
    void (*memory_ends)(acp_engine *e, const unsigned char *low, const unsigned char *high);

    /* of transport, with the lock held */
    message_handler *arrived;
    /* Straight into its place, a part of a long transfer past the caches; *sum, if given, goes on over it. */
    int (*land)(acp_lane *lane, const struct message *put, const unsigned char *payload, uint64_t size, bool is_long,
                uint64_t *sum);
    void (*landed)(acp_lane *lane, struct peer *from, struct link *link, const struct message *put,
                   const unsigned char *payload, int rc); /* ACP_E_BUSY: it is not in its place so far */
    void (*answer)(acp_lane *lane, struct link *link); /* the acknowledgements due, in one frame */
    void (*admitted)(acp_lane *lane, struct peer *peer, struct link *link);
    void (*unlinked)(acp_engine *e, const struct link *link); /* the link has ended: no answer can use it any more */
    bool (*questioned)(const acp_engine *e, const struct wire *wire); /* false: the connection is broken */
    bool (*provided)(acp_engine *e); /* memory for the answers to input; false: none */

    /* of operations: the window as a road */
    bool (*window_reaches)(acp_engine *e, const struct peer *p, acp_ga_t ga, uint64_t size);
    void (*window_start)(acp_lane *lane, struct op *op);
    void (*window_step)(acp_lane *lane, struct op *first);
    void (*window_learn)(acp_lane *lane, struct peer *p, acp_ga_t ga, uint64_t size);
    void (*window_welcome)(acp_lane *lane, struct op *op);
    void (*window_help)(acp_engine *e, acp_handle_t handle);

    /* of operations: copies of devices, and of what goes through this process to or from one */
    int (*device_mark)(acp_lane *lane, const struct message *command, struct acp_device_block *local,
                       bool local_is_source, struct device_job **job); /* without the lock */
    void (*device_run)(acp_lane *lane);
    void (*device_add)(acp_lane *lane, struct op *op);
    bool (*device_gate)(acp_lane *lane, struct op *op);
    void (*device_relay)(acp_lane *lane, struct op *op);
    void (*device_part_done)(acp_lane *lane, struct op *child);
    void (*device_forsake)(acp_engine *e, struct device_job *job);
    void (*device_forget)(struct device_job *job); /* at the end of all */

    /* of operations: messages for rooms above, by kind, and the memory that their answers need */
    message_handler *guest, *mail, *name, *signal, *channel;
    message_handler *doubted; /* not above, but it may end any operation */
    bool (*signals_provide)(acp_engine *e);

    /* of containers: a block of a message that stayed with its sender */
    int (*held_give)(acp_lane *lane, struct heap *h, uint64_t block, uint64_t by, int64_t patience_ns);

    const acp_method *methods; /* of all containers, by number */
};

extern const struct upcalls acp_upcalls;

#endif
