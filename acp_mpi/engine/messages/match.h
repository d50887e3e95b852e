#ifndef ACP_MATCH_H
#define ACP_MATCH_H

#include "messages/mailbox.h"

struct heap;
struct hold;
struct peer;

/* A message behind earlier ones of its sender that had no room: it may only meet receives that those did not fit.
 * Receives before landing->before were posted when the first of them came last. */
struct places { /* in the sequence */
    uint64_t from, before;
};

struct mail_entry *match_find(const struct heap *h, const acp_envelope *want);
/* Inside a change: a receive ends, which this message does not fit. */
void match_refused(struct hold *hold, struct mail_entry *entry, const acp_envelope *envelope);
/* A message is taken out: inside a change. */
void match_remove(struct hold *hold, struct mail_entry *entry);
/* In the section of `to`'s mailbox a message arrives there with all its bytes, whatever its bound, and in the same
 * change the word becomes `value`. ACP_E_FULL, ACP_E_BUSY: nothing has happened. */
int match_place(struct hold *hold, struct peer *to, const acp_envelope *e, const void *data,
                uint64_t *word, uint64_t value);
/* Rings for an entry that has changed: wakes the threads that sleep on it. */
void match_ring(acp_lane *lane, struct peer *to, const struct mail_entry *entry);
/* `state` changes for good. */
void match_done(acp_lane *lane, struct peer *to, struct mail_entry *entry, enum entry_state state);

/* A message arrives in the mailbox of `to`, which is this process or one of its node
 * within reach of load and store. `data`: all of it, if it is not longer than MAIL_INLINE.
 *
 *   ACP_OK      the message is matched or kept; landing->open: its bytes are still to come
 *   ACP_E_FULL  nothing has happened: there is no room for one more envelope. Not with
 *               `regardless`, unless the heap is full, too
 *   ACP_E_BUSY  nothing has happened: call again
 *
 * `filler`: slot of the process that brings the bytes. Its death ends the arrival; for the own
 * process only the bringing thread does. */
int match_arrive(acp_lane *lane, struct peer *to, const acp_envelope *envelope, const void *data,
                 bool regardless, uint32_t filler, struct landing *landing);
int match_posted(acp_lane *lane, struct peer *to, const acp_envelope *envelope, const void *data,
                 struct places among, uint32_t filler, struct landing *landing);

#endif
