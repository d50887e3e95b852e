#ifndef ACP_SHARED_COPY_H
#define ACP_SHARED_COPY_H

#include "core/engine.h"

struct landing;
struct mail_entry;

/* May both copy it? Then from `at` on; the bytes before are in the block. */
bool shared_copy_usable(const acp_engine *e, const struct landing *landing);
void shared_copy_open(acp_lane *lane, struct landing *landing, uint64_t at);
/* One part, or (a thread that may wait) all; `*at` is landing->size when all is there. ACP_E_BUSY: the receiver still
 * copies, call again. Refused by the system: `shares` is false then. */
int shared_copy_fill(acp_lane *lane, struct landing *landing, uint64_t *at);
/* By the waiting receiver of `entry`: copies one part of the first `size` bytes; false: none is left. */
bool shared_copy_help(acp_engine *e, struct mail_entry *entry, unsigned char *buffer, uint64_t size);

#endif
