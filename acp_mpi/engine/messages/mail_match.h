/* Matching, in the section of a mailbox. */
#ifndef ACP_MAIL_MATCH_H
#define ACP_MAIL_MATCH_H

#include "operations/op.h"
#include "memory/heap.h"

/* match.c */
struct letter *mail_find_message(const struct heap *h, const acp_envelope *want);
/* Of lane 0, and of those who lead or hold the lock: none. */
static inline int64_t mail_patience(const acp_lane *lane)
{
    return lane->index <= LANE_LOCKED ? 0 : ACP_FOREVER;
}
static inline bool mail_plausible(acp_engine *e, const acp_envelope *want)
{
    return (want->source == ACP_ANY || growth_reaches(e, (uint64_t)want->source)) &&
           want->tag >= ACP_ANY;
}
static inline void envelope_of(const struct letter *letter, acp_envelope *envelope)
{
    *envelope = (acp_envelope){.context = letter->context, .source = (int64_t)letter->source,
                               .tag = (int64_t)letter->tag, .size = letter->size,
                               .note = letter->note};
}
/* Inside a change: a receive ends, which this message does not fit. */
void letter_refused(struct hold *hold, struct letter *letter, const acp_envelope *envelope);
/* A message is taken out: inside a change. */
void mail_unkeep(struct hold *hold, struct letter *letter);
/* In the section of `to`'s mailbox a short message arrives there, whatever its bound, and in the same change the
 * word becomes `value`. ACP_E_FULL, ACP_E_BUSY: nothing has happened. */
int mail_place(struct hold *hold, struct peer *to, const acp_envelope *e, const void *data,
               uint64_t *word, uint64_t value);
/* credits.c: a sender waits for room. False: so many do that this one must look again by itself. */
bool mail_want_room(struct mailbox *box, uint32_t slot);
/* Who waits for room in the own mailbox, if there is enough again, or (`asked`) a receive has been
 * posted that one of theirs may be for. In the section, and then without it. */
uint32_t mail_wanting_take(struct heap *h, bool asked, uint32_t slots[MAIL_WANTING]);
void mail_wanting_wake(acp_engine *e, const uint32_t slots[MAIL_WANTING], uint32_t count);
/* purge_finished.c: nothing of that context is received here any more. */
bool mail_context_ended(const struct mailbox *box, uint64_t context);
/* deliver.c: may this process write where `to` keeps its own things? And does so, in the buffer of the
 * receive, which waits for these bytes and is not freed meanwhile. ACP_E_BUSY: refused. */
bool vm_goes(const acp_engine *e, const struct peer *to);
int fill_vm(acp_lane *lane, const struct landing *l, uint64_t at, const unsigned char *data,
            uint64_t size);
/* A letter says something new: whoever sleeps on it is woken. */
void letter_ring(acp_lane *lane, struct peer *to, const struct letter *letter);
/* `state` changes for good. */
void letter_done(acp_lane *lane, struct peer *to, struct letter *letter, enum letter_state state);

#endif
