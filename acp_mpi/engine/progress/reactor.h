#ifndef ACP_REACTOR_H
#define ACP_REACTOR_H

#include "core/engine_state.h"

#include <sys/epoll.h>

#define TAG_PEER (1ull << 32) /* | slot: its process ended */
#define TAG_WIRE (2ull << 32) /* | number */

enum { TAG_DOOR = 1, TAG_GIVER, TAG_LISTEN, TAG_TIMER, TAG_LIFELINE, TAG_INNER };

/* The descriptors that wake this process */
int reactor_open(acp_engine *e);
void reactor_close(acp_engine *e);
void reactor_arm(acp_engine *e, bool on); /* the events wake the progress thread, too */
bool reactor_await(acp_engine *e); /* how the progress thread sleeps; false: no more */
bool reactor_leave(acp_engine *e); /* to the leader */
bool reactor_take(acp_engine *e, int64_t timeout_ns, bool *interrupted); /* leader only */
bool reactor_look(acp_engine *e); /* leader only: takes some events, and all within a few looks */
void reactor_timer(acp_engine *e, uint64_t when); /* with the lock held, as the next */
void reactor_flush(acp_engine *e, uint64_t when); /* frames that are held back go out then, at the latest */

static inline int reactor_add(acp_engine *e, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event event = {.events = events, .data.u64 = tag};
    return epoll_ctl(e->progress.epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

#endif
