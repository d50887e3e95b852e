#ifndef ACP_TEAM_LAYOUT_H
#define ACP_TEAM_LAYOUT_H

#include "core/engine.h"

struct party;

struct party *party_new(acp_engine *e, const uint32_t *ranks, uint32_t count, uint32_t purpose);
void party_free(struct party *p);
bool party_has(const struct party *p, uint32_t slot);

#endif
