/* Backoff of processors that use one place of shared memory, call after call. */
#ifndef ACP_BACKOFF_H
#define ACP_BACKOFF_H

#include "core/lane.h"

/* Another has been at `word` since this lane was there last: it may stand back for a while, if its time is its own.
 * `lines` of memory go to and fro with each call. */
void backoff_contended(acp_lane *lane, const uint64_t *word, uint32_t lines);

static inline void backoff_visit(acp_lane *lane, const uint64_t *word)
{
    lane->meetings.visits += lane->meetings.word == word;
}

#endif
