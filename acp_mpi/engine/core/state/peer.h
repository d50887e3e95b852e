/* A process of the job as another knows it. */
#ifndef ACP_STATE_PEER_H
#define ACP_STATE_PEER_H

#include "core/layout.h"
#include "core/state/devices.h"
#include "core/state/memory.h"
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
    /* polled, for its end does not wake this process: Linux is older than 5.3, or no descriptor was left */
    bool looked_at;
    bool loss_handled;
    bool loss_accepted; /* acp_refresh has accepted its loss */
    bool missed; /* its loss counts; set before it is lost */
    _Atomic uint64_t shown; /* number of addresses of its memory that the program has */
    int pidfd;
    _Atomic uint64_t leaving; /* time of its announcement to leave, ns; 0: none */
    _Atomic bool said_all; /* and all that it has sent before, to any rank, has arrived */
    _Atomic uint64_t met_key, meetings; /* as in its sync_state, told with `leaving` */
    _Atomic bool ending; /* it ends in order: its death is not a loss */
    _Atomic bool gone; /* its last message has come */
    _Atomic bool left; /* it has left, and the other members do not end with it: not a loss */
    _Atomic bool alone; /* it left without a last barrier with them */
    uint32_t ends_low, ends_high; /* slots that it ends with, if `alone` */
    _Atomic bool met;  /* a link to it has been open */
    _Atomic bool asked; /* it was asked to report losses */
    uint32_t watch_asked; /* number of slots it was asked to watch; 0: not asked */
    bool relies; /* it relies on this process to report ends elsewhere (any_source.c) */
    struct peer_shm shm;
    struct peer_memory memory;
    struct peer_devices devices;
    struct peer_ring ring;
    struct peer_tcp tcp;
    struct peer_mail mail;
    struct peer_mpi mpi;
    struct peer_ops ops;
};

#endif
