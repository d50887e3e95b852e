/* Memory for input: a message is taken only if there is memory for its answer, for a caller would wait for ever for an
 * answer that could not be kept. A message that is not taken stays in its stream or ring, and is looked at again. */
#ifndef ACP_RESERVE_H
#define ACP_RESERVE_H

#include "core/engine.h"

#define KEPT_SMALL ((size_t)256)

/* False: not now, and the leader looks again soon. With the lock held. */
bool reserve_ready(acp_engine *e);
/* For a message by link, whatever else is short: for each frame one as large as its payload and two of KEPT_SMALL
 * bytes. Released with free. */
void *reserve_take(acp_engine *e, size_t size);
void reserve_close(acp_engine *e);

#endif
