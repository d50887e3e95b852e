#ifndef ACP_TARGET_H
#define ACP_TARGET_H

#include "core/engine.h"

struct link;
struct message;
struct peer;

/* Input */
void target_arrived(acp_lane *lane, struct peer *from, struct link *link,
                    const struct message *m, const unsigned char *payload, uint64_t size);
int target_land(acp_lane *lane, const struct message *m, const unsigned char *payload, uint64_t size,
                bool is_long, uint64_t *sum);
/* A put has been run, with that result; ACP_E_BUSY: not so far. */
void target_landed(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                   const unsigned char *payload, int rc);

#endif
