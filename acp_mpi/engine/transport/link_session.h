#ifndef ACP_LINK_SESSION_H
#define ACP_LINK_SESSION_H

#include "core/engine.h"

struct link;
struct message;
struct wire;

/* Beginning and end of a link's use of a connection (link_session.c): */
bool link_session_knows(acp_engine *e, struct wire *wire); /* is the peer that has called in the table? */
void link_session_connected(acp_lane *lane, struct wire *wire); /* both sides have proved the secret */
void link_session_continue(acp_lane *lane, struct wire *wire); /* there is room for more of the first frames */
void link_session_begin(acp_lane *lane, struct wire *wire, const struct message *m);
bool link_session_rest(const struct link *link); /* tells the peer that its connection ends in order */
void link_session_refuse(const acp_engine *e, const struct wire *wire); /* tells the peer that it counts as dead */
void link_session_put_off(const struct wire *wire); /* the peer is to call later: no descriptor is left here */
void link_session_knock(const struct wire *wire); /* the peer is to call */

#endif
