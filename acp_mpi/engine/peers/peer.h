/* A process of the job as another knows it. */
#ifndef ACP_PEER_H
#define ACP_PEER_H

#include "messages/eager_slot.h"
#include "messages/fastbox.h"
#include "core/layout.h"

#include <stdbool.h>

/* A stretch of a peer's memory file mapped here. */
struct view {
    uint64_t low, high; /* file offsets */
    unsigned char *base;
    bool pinned;
    struct view *next;
};

enum relation { RELATION_UNKNOWN = 0, RELATION_SELF, RELATION_NODE, RELATION_REMOTE };

struct courier;
struct link;
struct wire;

/* This process at a peer that drives MPI for it. */
struct visit {
    uint32_t operations;
    bool welcome; /* the peer has answered */
    bool stays;   /* counted in `stays` until it leaves */
    uint64_t announced, until;
};

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
    uint8_t opened; /* how its memory was opened */
    uint64_t attach_at; /* not before that: nothing was left here to open it with */
    _Atomic uint8_t vm_refused; /* process_vm_* said no: its own ring then */
    int fd;
    int pidfd;
    int door_fd; /* its event counter */
    uint32_t line; /* ours among its attach lines */
    const struct control *control;
    uint64_t span; /* of its memory: what its file has room for */
    struct doors *doors;
    struct heap *_Atomic heap;
    _Atomic uint32_t eager_stuck[EAGER_EACH]; /* so often had a slot there been claimed when it stayed full */
    struct fast_sender fast; /* this process, at its mailbox */
    _Atomic bool holds; /* blocks of the own heap are its, until it has pulled what is in them */
    _Atomic bool mail_far; /* its heap could not be mapped: messages to it go by link */
    struct view *views;
    uint32_t view_count, view_limit;
    _Atomic uint64_t leaving; /* when that was heard; 0: it does not */
    _Atomic bool ending; /* in order: its death is none any more */
    _Atomic bool gone; /* it has said its last word */
    _Atomic bool left; /* and the others do not end with it: it is no loss */
    _Atomic bool alone; /* nor has it met them at its end */
    uint32_t ends_low, ends_high; /* but these slots, if it is alone */
    _Atomic bool met;  /* on a link */
    _Atomic bool asked; /* for news */
    uint32_t watch_asked; /* to watch among so many slots; 0: it was not */
    bool guest; /* needs this process to drive MPI */
    struct visit visit; /* of this process there */
    _Atomic uint64_t heap_known; /* so far into its window part, as its owner has shown */
    struct link *links[ACP_COLORS];
    struct courier *courier; /* NULL: no message yet by link */
    struct backlog *backlog; /* messages for a full ring */
    struct chain_failure *chain_failures;
    uint32_t chain_failure_count, chain_failure_room;
};
enum opened { OPENED_NOT = 0, OPENED_SELF, OPENED_PROC, OPENED_SOCKET, OPENED_GIVEN };

#endif
