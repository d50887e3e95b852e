#ifndef ACP_TRANSACTION_LOCK_H
#define ACP_TRANSACTION_LOCK_H

#include "core/engine.h"

struct section;

void transaction_lock_create(struct section *s);
bool transaction_lock_try(acp_lane *lane, struct section *s); /* takes the lock if it is free */
void transaction_lock_release(struct section *s);
/* Waits for the lock of one that was found taken. EBUSY, ETIMEDOUT: it still is; EINTR: a signal came. */
int transaction_lock_wait(acp_lane *lane, struct section *s, int64_t patience_ns);
/* A section was left because others keep the heap. ACP_OK: its caller waits for ever, and enters it again. */
int transaction_lock_retry(acp_lane *lane, int64_t patience_ns);

#endif
