#ifndef ACP_PURGE_FINISHED_H
#define ACP_PURGE_FINISHED_H

#include "core/engine.h"

struct hold;
struct mail_entry;

/* Nothing of that context is received here from now on. `in_vain`: something may have come. */
void purge_finished_add(acp_engine *e, uint64_t context, bool in_vain);
/* Receives an entry of such a context with bytes under way, or with its sender; false: no memory. Then, leader only,
 * the end of these receives. */
bool purge_finished_receive(struct hold *hold, struct mail_entry *entry);
void purge_finished_drop(acp_lane *lane);

#endif
