#ifndef ACP_TARGET_H
#define ACP_TARGET_H

#include "core/engine.h"

struct link;
struct message;
struct op;
struct peer;

/* Input */
void target_arrived(acp_lane *lane, struct peer *from, struct link *link,
                    const struct message *m, const unsigned char *payload, uint64_t size);
int target_land(acp_lane *lane, const struct message *m, const unsigned char *payload, uint64_t size,
                uint64_t *sum);
/* A put has been run, with that result. */
void target_landed(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                   int rc);
void target_task_reply(acp_lane *lane, struct op *op);
void target_task_serve(acp_lane *lane, struct op *op);
struct op *target_task(acp_engine *e, const struct peer *client, uint64_t id); /* of that command; NULL: none */
void target_reply(acp_lane *lane, struct peer *to, struct link *link,
                  const struct message *command, uint64_t value);
void target_fail(acp_lane *lane, struct peer *to, struct link *link,
                 const struct message *command); /* the lane's fault */

#endif
