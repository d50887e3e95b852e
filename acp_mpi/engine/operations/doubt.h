#ifndef ACP_DOUBT_H
#define ACP_DOUBT_H

#include "core/engine.h"

struct link;
struct message;
struct peer;

void doubt_commands(acp_engine *e); /* by a thread that waits for long, without the lock */
void doubt_heard(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                 const unsigned char *payload, uint64_t size);

#endif
