/* A process of the job as another knows it. */
#ifndef ACP_STATE_PEER_H
#define ACP_STATE_PEER_H

#include "core/layout.h"
#include "core/state/messages.h"
#include "core/state/mpi_window.h"
#include "core/state/operations.h"
#include "core/state/peers.h"
#include "core/state/transport.h"

enum relation { RELATION_UNKNOWN = 0, RELATION_SELF, RELATION_NODE, RELATION_REMOTE };
enum opened { OPENED_NOT = 0, OPENED_SELF, OPENED_PROC, OPENED_SOCKET, OPENED_GIVEN };

struct peer {
    struct row row;
    uint32_t slot;
    _Atomic uint32_t relation;
    _Atomic uint32_t lost;
    bool watched;
    bool looked_at; /* its end does not wake this process: Linux is older than 5.3, or no descriptor was left */
    bool loss_handled;
    bool loss_accepted; /* by acp_refresh */
    bool missed; /* its loss counts; set before it is lost */
    _Atomic uint64_t shown; /* addresses in its memory that the program has, as long as the engine lives */
    int pidfd;
    _Atomic uint64_t leaving; /* when that was heard; 0: it does not */
    _Atomic bool ending; /* in order: its death is none any more */
    _Atomic bool gone; /* it has said its last word */
    _Atomic bool left; /* and the others do not end with it: it is no loss */
    _Atomic bool alone; /* nor has it met them at its end */
    uint32_t ends_low, ends_high; /* but these slots, if it is alone */
    _Atomic bool met;  /* on a link */
    _Atomic bool asked; /* for news */
    uint32_t watch_asked; /* to watch among so many slots; 0: it was not */
    struct peer_shm shm;
    struct peer_tcp tcp;
    struct peer_mail mail;
    struct peer_mpi mpi;
    struct peer_ops ops;
};

#endif
