/* The engine: one process of a job. Each room has its part; users see acp.h. */
#ifndef ACP_ENGINE_STATE_H
#define ACP_ENGINE_STATE_H

#include "core/lane.h"
#include "core/state/channels.h"
#include "core/state/collectives.h"
#include "core/state/containers.h"
#include "core/state/device_copies.h"
#include "core/state/devices.h"
#include "core/state/fence.h"
#include "core/state/membership.h"
#include "core/state/memory.h"
#include "core/state/messages.h"
#include "core/state/mpi_window.h"
#include "core/state/operations.h"
#include "core/state/peers.h"
#include "core/state/progress.h"
#include "core/state/transport.h"

struct acp_engine {
    struct operations_state ops; /* first: each call looks at its first words */
    acp_lane lanes[ATTACH_LANES];
    acp_config config;
    const struct upcalls *up; /* to rooms above the caller's */
    struct row row;
    uint32_t self; /* slot */
    _Atomic uint32_t procs;
    uint32_t rank;
    const uint32_t *slot_of_rank; /* in the table; NULL: the identity */
    struct control *control;
    struct doors *doors;
    pthread_mutex_t space; /* peers, views, own directory; descriptors of all of them */
    pthread_mutex_t lock; /* operations, messages, links */
    _Atomic bool stopping;
    _Atomic uint32_t holds; /* the last to let go destroys it */
    _Atomic uint32_t inside;     /* threads without the interpreter, collectives under way */
    struct fence_state fence;
    struct progress_state progress;
    struct job_state job;
    struct memory_state memory;
    struct devices_state devices;
    struct device_copies_state copies;
    struct shm_state shm;
    struct tcp_state tcp;
    struct mpi_state mpi;
    struct mail_state mail;
    struct collectives_state collectives;
    struct sync_state sync;
    struct containers_state containers;
    struct channels_state channels;
};

static_assert(offsetof(acp_engine, ops) == 0, "the words that each call looks at come first");

#endif
