#ifndef ACP_NAME_SERVICE_H
#define ACP_NAME_SERVICE_H

#include "core/engine.h"

struct link;
struct message;
struct peer;

void board_serve(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                 const unsigned char *payload, uint64_t size);
void board_reset(acp_engine *e);
void board_close(acp_engine *e);

#endif
