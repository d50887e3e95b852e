#ifndef ACP_COMMIT_H
#define ACP_COMMIT_H

#include "core/engine.h"

/* The memory behind it */
int commit_memory(acp_engine *e, uint64_t offset, uint64_t size, acp_fault *fault);
void commit_count(acp_engine *e, int64_t bytes); /* committed, or not any more */
uint64_t commit_large_page(acp_engine *e, uint64_t size); /* for so much memory, 0: none. With the space lock */
uint64_t commit_heap_size(const acp_engine *e); /* counted apart: any process makes it grow */

#endif
