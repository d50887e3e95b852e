#ifndef ACP_TRANSACTION_LOCK_H
#define ACP_TRANSACTION_LOCK_H

#include "core/engine.h"

struct section;

void section_create(struct section *s);
bool section_try(acp_lane *lane, struct section *s); /* takes the lock if it is free */
void section_unlock(struct section *s);
/* Waits for the lock of one that was found taken. EBUSY, ETIMEDOUT: it still is; EINTR: a signal came. */
int section_lock(acp_lane *lane, struct section *s, int64_t patience_ns);
/* A section was left because others keep the heap. ACP_OK: its caller waits for ever, and enters it again. */
int section_again(acp_lane *lane, int64_t patience_ns);

#endif
