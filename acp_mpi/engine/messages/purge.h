#ifndef ACP_PURGE_H
#define ACP_PURGE_H

#include "core/engine_state.h"

struct letter;

/* Has who brings the bytes of a letter died? From now on this process hears of it. */
bool filler_lost(acp_engine *e, const struct letter *letter);
/* Letters of the dead, and of contexts that have ended, in the own mailbox; leader only. */
void mail_tidy(acp_lane *lane);

static inline bool mail_untidy(const acp_engine *e)
{
    return e->mail.losses || e->mail.unwanted || e->doors->late;
}

#endif
