/* Who drives communication, what wakes it, and what it drives. */
#ifndef ACP_PROGRESS_H
#define ACP_PROGRESS_H

#include "core/engine_state.h"

/* progress.c */
int progress_start(acp_engine *e);
void progress_join(acp_engine *e);  /* the thread has ended, waiting callers have left */
void progress_event(acp_engine *e); /* wake the threads that doze */
void waiters_wake(acp_engine *e);   /* and those that sleep in barriers */
bool leader_try(acp_engine *e);
void leader_release(acp_engine *e);
/* Of the leader only. One round without sleeping, or asleep until something arrives: true if anything
 * was done, or has arrived. */
bool progress_poll(acp_engine *e);
bool lead_asleep(acp_engine *e, int64_t timeout_ns, bool *interrupted);
void node_watch(acp_engine *e); /* hear of the death of any process of the node */
#define RETRY_NS ((int64_t)1000000) /* a full ring, a dying segment, a claimed cell, a held lock */

/* wait.c */
int progress_wait(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
                  acp_doing doing);
/* What others see that this process waits for: of several threads what the last did that began and has
 * not ended. The end takes what the beginning returned. */
acp_doing doing_begin(acp_engine *e, acp_doing doing);
void doing_end(acp_engine *e, acp_doing doing, acp_doing was);
/* Short of `timeout_ns`, without leading: what arrives is for the progress thread. */
bool progress_doze(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns);
/* Looking awaits what comes soon. If messages do not, for the others need the processors, it is
 * shorter: on the links of messages each look is a system call. */
uint64_t progress_worth(const acp_engine *e, uint64_t time_ns);
/* Between two looks of one who was just served, and who often has more to say. On one node yielding
 * keeps the thread's claim to be run at once when it is rung for (5 us instead of 46). For a host with a
 * single core to itself it would be a tick of 4 ms. */
void progress_linger(const acp_engine *e, uint32_t *looks);
/* A signal interrupted a wait, or the wait is long: true if it must end. Holding no lock. */
static inline bool tick(acp_engine *e, int reason)
{
    if (!e->config.tick)
        return reason != ACP_TICK_LONG;
    return e->config.tick(e->config.tick_context, reason) != 0;
}
/* reactor.c: the descriptors that wake this process */
int events_open(acp_engine *e);
void events_close(acp_engine *e);
void events_arm(acp_engine *e, bool on);  /* they wake the progress thread, too */
bool events_await(acp_engine *e);         /* how the progress thread sleeps; false: no more */
bool events_leave(acp_engine *e);         /* to whoever leads */
bool events_take(acp_engine *e, int64_t timeout_ns, bool *interrupted); /* leader only */
bool events_look(acp_engine *e); /* leader only: takes some of them, and all within a few looks */
void timer_until(acp_engine *e, uint64_t when); /* with the lock held */
int poll_add(acp_engine *e, int fd, uint32_t events, uint64_t tag);
#define TAG_PEER (1ull << 32) /* | slot: its process ended */
#define TAG_WIRE (2ull << 32) /* | number */
enum { TAG_DOOR = 1, TAG_GIVER, TAG_LISTEN, TAG_TIMER, TAG_LIFELINE, TAG_INNER };

void lifeline_ended(acp_engine *e); /* lifeline.c */

/* doorbell.c: waking a sleeping process */
void door_ring(acp_engine *e, const struct peer *p);
/* Its threads that do not lead. They doze until somebody does, or for that time; false: a signal came. */
void doze_ring(struct doors *doors);
bool doze(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns);
void progress_kick(acp_engine *e); /* the own bell: whoever leads looks again */
void watch_hit(acp_engine *e, struct peer *p, acp_ga_t ga, uint64_t size);

/* connection.c, connection_input.c */
void wire_accept(acp_lane *lane);
void wire_ready(acp_lane *lane, uint32_t number, uint32_t events);
bool talker_ask(acp_lane *lane); /* false: it has brought nothing */
void wires_feed(acp_lane *lane); /* those that wait for memory, if there is some again */

/* link.c, keepalive.c, link_io.c */
/* Deadlines, calls to be made again, signs of life, `late` after they were due. */
void links_tick(acp_lane *lane, uint64_t late);
/* Something is said, or a peer calls, and there is no descriptor, or no memory, for it (errno); does that last? */
void short_begins(acp_engine *e, int error);
bool short_lasts(acp_engine *e);
void links_watch(acp_engine *e); /* somebody waits: are the peers still there? */
/* Before the end: another rank may wait for the last word, which a wire that breaks takes with it. */
void links_await(acp_engine *e);
void links_bury(acp_engine *e);
void links_flush(acp_engine *e); /* then, with nobody at work: what is written goes out */
void links_close(acp_engine *e);
void links_release(acp_engine *e); /* sends what waits for company */
void links_ask(acp_engine *e); /* and asks for the answers that have time: now somebody waits */
void links_lost(acp_lane *lane, struct peer *p);
/* Memory between these addresses may end: what was to go out from there goes out as it is now. With the
 * lock held. */
void links_take_in(acp_engine *e, const unsigned char *low, const unsigned char *high);

/* flow.c: messages by link */
bool couriers_push(acp_lane *lane); /* what can go on does; true if anything did */
void couriers_lost(acp_lane *lane, struct peer *p);
void couriers_reset(acp_engine *e);
void couriers_close(acp_engine *e);

#endif
