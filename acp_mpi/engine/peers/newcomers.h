#ifndef ACP_NEWCOMERS_H
#define ACP_NEWCOMERS_H

#include "base/span.h"
#include "core/engine.h"
#include "core/layout.h"

struct peer;

#define PURPOSE_FINALIZE 2u /* barriers from this purpose on are of members that end together */
#define ROWS_PIECE 256u /* rows taken or sent at a time: they fit a frame */

/* Members that join later */
bool newcomers_find(acp_engine *e, uint64_t slot); /* is there such a slot, as far as can be learnt here? */
/* Does a living process have an attach line here under that slot, though its table cannot be read? */
bool newcomers_attached(acp_engine *e, uint32_t slot);
struct span newcomers_members(const acp_engine *e, uint32_t purpose);
struct message newcomers_leaving(const acp_engine *e, uint64_t word);
void newcomers_publish_table(acp_engine *e);
uint32_t newcomers_known_to(const acp_engine *e, const struct peer *p); /* slots, at the least */
void newcomers_learn(acp_engine *e, const struct message *m, const unsigned char *payload,
                     uint64_t size);

#endif
