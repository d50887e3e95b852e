/* What is kept for the answers to messages. */
#include "provision.h"

bool provided(acp_engine *e)
{
    bool is = backlog_provide(e) && signals_provide(e) && (!e->links || outbox_provide(&e->outbox_spares));
    if (unlikely(!is))
        atomic_store(&e->starved, true);
    return is;
}
