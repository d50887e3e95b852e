/* Memory for what comes: a message is taken only if there is some for what its answer needs, for whoever
 * waits for an answer that could not be kept would wait for ever. What is not taken stays in its stream or
 * ring, and is looked at again. */
#ifndef ACP_PROVISION_H
#define ACP_PROVISION_H

#include "op.h"

/* False: not now, and whoever leads looks again soon. With the lock held. */
bool provided(acp_engine *e);

#endif
