/* The members of the job, and how this process has opened the memory of those on its node. */
#ifndef ACP_STATE_PEERS_H
#define ACP_STATE_PEERS_H

#include "base/span.h"

#include <stdatomic.h>

struct control;
struct doors;
struct peer;
struct table_head;

/* The table of members that the node shares (rank_table.c). */
struct table {
    int fd;
    const unsigned char *base; /* mapped whole */
    const struct table_head *head;
};

#define PEER_PAGE 1024u

struct job_state {
    struct span joined_with; /* members that joined together and end together */
    struct span everybody;   /* `joined_with`, or all known */
    uint32_t founders;       /* members that began the job */
    struct table table;
    struct peer ***peers; /* by slot / PEER_PAGE: pages of PEER_PAGE pointers */
    struct peer *own;
    _Atomic uint32_t loss_news; /* losses that the leader has not handled yet */
    _Atomic uint32_t losses, losses_accepted; /* of `missed` peers, which count as losses */
    _Atomic uint32_t departed, departed_accepted; /* of all lost peers, `missed` or not */
    uint32_t absent; /* peers that were lost or had left at the last acp_refresh */
    _Atomic bool outcast; /* the other members treat this process as dead */
    _Atomic uint32_t leavers;
    struct span *ends; /* slots of ranks that have said all: apart, in rising order (ends.c) */
    _Atomic uint32_t end_count;
    uint32_t end_room;
    _Atomic bool looking; /* peers are polled, for their end wakes no thread */
    int giver_fd;
    int spare_fd; /* for when there is no other; transport may use it up */
    _Atomic bool joined;
};

/* Of a peer. */
struct peer_shm {
    uint8_t opened; /* enum opened: by which way */
    uint64_t attach_at; /* earliest next attempt, ns: no way to open it was left at the last */
    _Atomic uint8_t vm_refused; /* process_vm_* is not permitted: its ring is used then */
    int fd;
    int door_fd; /* its doorbell, an event counter */
    uint32_t line; /* this process's attach line there */
    const struct control *control;
    uint64_t span; /* bytes of its memory that its file has room for */
    struct doors *doors;
};

#endif
