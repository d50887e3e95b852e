#ifndef ACP_NAME_SERVICE_H
#define ACP_NAME_SERVICE_H

#include "core/engine.h"

struct link;
struct message;
struct peer;

void name_service_serve(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                        const unsigned char *payload, uint64_t size);
void name_service_reset(acp_engine *e);
void name_service_close(acp_engine *e);

#endif
