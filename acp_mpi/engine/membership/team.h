/* A team: a set of ranks that have a barrier, their layout, and the reason if one will not come. */
#ifndef ACP_TEAM_H
#define ACP_TEAM_H

#include "base/span.h"
#include "core/engine.h"
#include "peers/newcomers.h"

struct message;
struct link;
struct peer;


/* A set of ranks as one member sees it. */
struct party {
    uint64_t key;
    uint32_t purpose;
    uint32_t count;
    uint32_t *slots, *ranks; /* of a list: rising, and as given; NULL: all but the absent */
    uint32_t *absent, absences;
    bool whole; /* all of the job that live, in a list or not */
    uint32_t asked, losses; /* count and losses at its creation */
    struct span all; /* `everybody` then */
    uint32_t here;                 /* members on this node */
    uint32_t leader;               /* the lowest of the members here */
    uint32_t nodes;
    uint32_t partners[ACP_RANK_BITS]; /* the lowest members that are 1, 2, 4, ... nodes further */
    uint32_t sources[ACP_RANK_BITS];  /* the lowest members that have this process as a partner */
    uint32_t users; /* calls under way, and being kept */
};

/* Progress of the rounds of a node's lowest member. */
struct meeting {
    bool begun, signalled;
    uint32_t round;
    uint32_t culprit; /* slot + 1 of the rank in whose memory another node's entry is damaged; 0: none is */
};

struct party *team_acquire(acp_engine *e, const uint32_t *ranks, uint32_t count, uint32_t purpose);
void team_release(acp_engine *e, struct party *p);
int team_check(acp_engine *e, const struct party *p); /* why a member will not come */
bool team_passed(const struct party *p, const struct peer *member); /* the member has passed the barrier, and ends */
bool team_watch(acp_engine *e, const struct party *p);
int team_sync_nodes(acp_engine *e, struct party *p, struct meeting *m, int64_t timeout_ns);
void team_tell_damage(acp_engine *e, const struct party *p, uint32_t culprit); /* a slot; as a node's lowest member */

void team_signal_arrived(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                         const unsigned char *payload, uint64_t size);
bool team_signals_provide(acp_engine *e); /* makes room for one more; false: no memory */
void team_reset(acp_engine *e);
void team_close(acp_engine *e);

#endif
