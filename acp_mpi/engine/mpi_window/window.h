/* The road through MPI's window, as the router, the leader and waiting callers see it. */
#ifndef ACP_WINDOW_H
#define ACP_WINDOW_H

#include "core/mpi_window.h"
#include "core/poller.h"
#include "mpi_window/symbols.h"

#include <stdatomic.h>

struct peer;

struct window {
    struct mpi mpi;
    acp_window_config config;
    unsigned char *staging; /* the leader's: parts that the caller's memory does not hold */
    _Atomic bool open; /* a road */
    _Atomic bool closed;
    _Atomic bool reads_back; /* a flush may return before a put has arrived */
    _Atomic uint32_t inside; /* threads in MPI calls */
};

/* The window's reach, and its calls of MPI */
bool window_reaches(acp_engine *e, const struct peer *p, acp_ga_t ga, uint64_t size);
bool window_writes(acp_engine *e, uint64_t position);
void window_learn(acp_lane *lane, struct peer *p, acp_ga_t ga, uint64_t size);
void window_forget(acp_engine *e);
bool window_forced(const acp_engine *e);
bool window_enter(struct window *w); /* before calls of MPI; not once it is closed */
void window_leave(struct window *w);
int window_issue(const struct window *w, bool put, unsigned char *memory, int target, uint64_t at,
                 uint64_t size);
enum due window_due(const acp_engine *e);
bool window_drive(acp_lane *lane);
void window_pause(acp_engine *e);
void window_free(acp_engine *e);

#endif
