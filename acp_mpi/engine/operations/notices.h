#ifndef ACP_NOTICES_H
#define ACP_NOTICES_H

#include "core/engine.h"
#include "core/layout.h"

struct link;
struct peer;

void growth_leaves(acp_lane *lane, struct peer *p, const struct message *m); /* as it says */

/* Who is gone, or leaves; with the lock held */
void notify_all(acp_lane *lane, const struct message *m); /* whoever this process is in touch with */
struct message loss_of(const acp_engine *e, const struct peer *p);
struct message parting_of(const acp_engine *e, const struct peer *p);
void loss_heard(acp_lane *lane, const struct message *m);
/* To one that was in touch with nobody here: what all others were told, as far as somebody may miss it. */
void say_news(acp_lane *lane, struct peer *to, struct link *link);

#endif
