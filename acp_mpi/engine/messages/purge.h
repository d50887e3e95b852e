#ifndef ACP_PURGE_H
#define ACP_PURGE_H

#include "core/engine_state.h"

struct letter;

/* Has the filler of an entry died? From now on this process registers for that. */
bool filler_lost(acp_engine *e, const struct letter *letter);
/* Purges the own mailbox of messages of dead ranks and finished contexts; leader only. */
void mail_tidy(acp_lane *lane);

static inline bool mail_untidy(const acp_engine *e)
{
    return e->mail.losses || e->mail.unwanted || e->doors->late;
}

#endif
