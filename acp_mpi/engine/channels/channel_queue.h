/* Sends and receives that go on beside the program. */
#ifndef ACP_CHANNEL_QUEUE_H
#define ACP_CHANNEL_QUEUE_H

#include "core/poller.h"

struct acp_channel;

/* Moves what can be moved now; from any thread that keeps the end alive. */
void channel_queue_serve(struct acp_channel *c);
void channel_queue_stir(acp_engine *e); /* an end may have become ready: the leader serves */
enum due channel_queue_due(const acp_engine *e);
bool channel_queue_poll(acp_lane *lane);

#endif
