#ifndef ACP_SHM_RING_H
#define ACP_SHM_RING_H

#include "core/poller.h"

struct message;
struct peer;

int shm_ring_send(acp_lane *lane, struct peer *to, uint32_t color, const struct message *m);

/* Brackets the lock for a submitted operation. A peer that this wakes is rung only after the lock is released: woken
 * on this processor it runs at once, and its answer needs the lock. */
void shm_ring_submit_begin(acp_engine *e);
void shm_ring_submit_end(acp_engine *e);
bool shm_ring_drain(acp_lane *lane);
enum due shm_ring_due(const acp_engine *e); /* of the leader */
bool shm_ring_has_any(const acp_engine *e); /* messages that have not been read; from any thread */
bool shm_ring_poll(acp_lane *lane); /* that, and what has waited for room in the rings of others */
void shm_ring_doubt(acp_engine *e, const struct peer *p); /* p, maybe this process, is asked for the next one */
/* Without the lock: skips cells, and sets back a tail, that no writer leaves so. */
void shm_ring_mend(acp_lane *lane);
bool shm_ring_backlog_push(acp_lane *lane);
void shm_ring_backlog_free(struct peer *p);
bool shm_ring_backlog_provide(acp_engine *e); /* some entries are kept for answers; false: no memory */
void shm_ring_backlog_close(acp_engine *e);

#endif
