#ifndef ACP_ATTACH_H
#define ACP_ATTACH_H

#include "core/engine.h"

struct peer;
struct row;

/* Opening the memory of a process of the node */
int attach_open(acp_engine *e, struct peer *p, uint8_t *opened, bool *later);
void attach_unmap(acp_engine *e, struct peer *p);
/* The table with that nonce, of which `place` has the descriptor; its own, or -1. With the space lock. */
int attach_table(acp_engine *e, const struct row *place, uint64_t nonce);
int attach_giver_open(acp_engine *e);
void attach_close(acp_engine *e);
void attach_giver_serve(acp_engine *e);
void attach_spare_open(acp_engine *e); /* a spare descriptor, for when there is no other */
bool attach_spare_close(acp_engine *e); /* so that there is one; false: there is no spare */

#endif
