/* The road through MPI's window, as the router, the leader and waiting callers see it. */
#ifndef ACP_WINDOW_H
#define ACP_WINDOW_H

#include "core.h"

/* window.c */
bool window_reaches(acp_engine *e, const struct peer *p, acp_ga_t ga, uint64_t size);
bool window_writes(acp_engine *e, uint64_t position);
void window_start(acp_lane *lane, struct op *op);
void window_welcome(acp_lane *lane, struct op *op);
void window_step(acp_lane *lane, struct op *first);
void window_help(acp_engine *e, acp_handle_t handle);
void window_drive(acp_engine *e);
void window_pause(acp_engine *e);
void window_free(acp_engine *e);

#endif
