/* Barriers, and names that are published. */
#ifndef ACP_STATE_MEMBERSHIP_H
#define ACP_STATE_MEMBERSHIP_H

#include <stdatomic.h>
#include <stdint.h>

struct name;
struct party;
struct signal_count;
struct unfinished;

struct sync_state {
    _Atomic int64_t trouble_rank; /* the rank that made the last barrier fail */
    struct party *everyone;   /* team of all living ranks, for sync */
    struct party *last_party; /* team of the last barrier over a list */
    struct unfinished *unfinished; /* barriers left half-way; without `space` only NULL or not is read */
    struct signal_count *signals;
    uint32_t signal_used, signal_room;
    _Atomic uint64_t met_key;  /* key of the party of the last barrier of the whole job; 0: none yet */
    _Atomic uint64_t meetings; /* barriers passed in a row under `met_key` */
    bool said_all;             /* in finalize, and all that was sent has arrived */
    struct name *names;  /* kept here, for the whole job */
    struct name *offers; /* names of this process with memory of their own */
    struct name *_Atomic ended; /* offers with memory to be given back */
};

#endif
