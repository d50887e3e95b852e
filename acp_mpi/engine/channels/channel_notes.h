/* Notes between the processes of two ends: offers, ends, and, by link, slots and credits. */
#ifndef ACP_CHANNEL_NOTES_H
#define ACP_CHANNEL_NOTES_H

#include "core/poller.h"

struct acp_channel;
struct link;
struct message;
struct peer;

/* With the lock held: */
void channel_notes_arrived(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                           const unsigned char *payload, uint64_t size);
void channel_notes_lost(acp_engine *e, const struct peer *p);
int channel_notes_offer(struct acp_channel *c); /* a place for it, and the peer is told */
void channel_notes_close(struct acp_channel *c);  /* the peer is told, and what can be given back is */
void channel_notes_forget(struct acp_channel *c); /* its owner does not keep it any more: it may be gone after that */
void channel_notes_credit(struct acp_channel *c, uint64_t taken);
void channel_notes_reap(acp_engine *e); /* gives back what closed ends had */

/* Without the lock, with the turn: the next slot by link, of whose bytes `*sent` have gone. Nothing of it is visible
 * before its last frame. ACP_E_BUSY: the link has no room for more now. */
int channel_notes_slot(struct acp_channel *c, const unsigned char *data, uint64_t size, uint64_t stamp, uint64_t *sent);
bool channel_notes_room(void *end); /* for a wait: the link has room, or will not have any */

enum due channel_notes_due(const acp_engine *e);
bool channel_notes_poll(acp_lane *lane);
/* Another process has changed a channel: wakes the threads that wait for that; false: none has. */
bool channel_notes_hear(acp_engine *e);
bool channel_notes_provide(acp_engine *e); /* memory for a reset; false: there is none */
void channel_notes_reset(acp_engine *e); /* with the lock held, when all memory has gone */
void channel_notes_end(acp_engine *e); /* last of all */

#endif
