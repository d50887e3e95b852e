#ifndef ACP_TEAM_LAYOUT_H
#define ACP_TEAM_LAYOUT_H

#include "core/engine.h"

struct party;

struct party *team_layout_new(acp_engine *e, const uint32_t *ranks, uint32_t count, uint32_t purpose);
void team_layout_free(struct party *p);
bool team_layout_has(const struct party *p, uint32_t slot);

#endif
