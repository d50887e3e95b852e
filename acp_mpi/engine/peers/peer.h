/* A process of the job as another knows it. */
#ifndef ACP_PEER_H
#define ACP_PEER_H

#include "core/engine_state.h"

struct peer;

/* The members of the job, and the memory of those of the node */
int peers_join(acp_engine *e, uint32_t count, uint32_t own_slot); /* the rows are in the table */
struct peer *peer_of_slot(acp_engine *e, uint32_t slot);
struct peer *peer_known(acp_engine *e, uint32_t slot); /* NULL: never talked to */
int peer_attach(acp_engine *e, struct peer *p); /* its relation, or a status */
void peer_watch(acp_engine *e, struct peer *p);
/* The error of process_vm_* on a peer: true if the system does not permit it, and so would not the next time. */
bool peer_vm_refused(struct peer *p, int error);
void peer_must_look(acp_engine *e, const struct peer *p, uint32_t at); /* LOOK_*: rings for its leader, too */
void peer_channel_changed(acp_engine *e, const struct peer *p); /* its threads that wait, and its leader, look again */
bool peer_own_shortage(int error); /* an error for want of something of this process, not of the peer */
void peer_said_leaving(acp_engine *e, struct peer *p); /* it ends without the others */
void peer_mark_lost(acp_engine *e, struct peer *p); /* from anywhere; the leader does the rest */
void peer_said_lost(acp_engine *e, struct peer *p); /* reported by another process */
bool peer_left(const struct peer *p); /* in order, while the others go on */
bool peer_leaves(const struct peer *p); /* in finalize for a while */
/* ACP_OK, or why nothing more comes from it: ACP_E_LOST, ACP_E_FINALIZING */
int peer_gone(const acp_engine *e, const struct peer *p);
void peers_cast_out(acp_engine *e);
struct peer *peer_next(acp_engine *e, struct peer *after); /* the next peer that has a structure; NULL: the end */
bool peer_line_dead(acp_engine *e, struct doors *doors, uint32_t line);
void peer_detach(acp_engine *e, struct peer *p); /* a dead one of the node; no address of its memory is in use */
void peers_close(acp_engine *e); /* descriptors, with the bell's lock */
void peers_free(acp_engine *e); /* no other memory of theirs is mapped */

/* The path treats the ranks of the own node as if they were on others. */
static inline bool peers_apart(const acp_engine *e)
{
    return e->config.path == ACP_PATH_LINK || e->config.path == ACP_PATH_WINDOW;
}

#endif
