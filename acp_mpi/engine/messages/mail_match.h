/* Matching, in the section of a mailbox. */
#ifndef ACP_MAIL_MATCH_H
#define ACP_MAIL_MATCH_H

#include "core/lane.h"
#include "messages/mailbox.h"
#include "peers/newcomers.h"

/* Longest wait of a lane for a mailbox: none for lane 0, the leader and the lock's holder. */
static inline int64_t mail_match_patience(const acp_lane *lane)
{
    return lane->index <= LANE_LOCKED ? 0 : ACP_FOREVER;
}

static inline bool mail_match_plausible(acp_engine *e, const acp_envelope *want)
{
    return (want->source == ACP_ANY || newcomers_find(e, (uint64_t)want->source)) &&
           want->tag >= ACP_ANY;
}

static inline void mail_match_envelope(const struct mail_entry *entry, acp_envelope *envelope)
{
    *envelope = (acp_envelope){.context = entry->context, .source = (int64_t)entry->source,
                               .tag = (int64_t)entry->tag, .size = entry->size,
                               .note = entry->note};
}

#endif
