#ifndef ACP_QUERY_H
#define ACP_QUERY_H

#include "core/engine.h"
#include "transport/frame.h"

struct seal;
struct survey_doing;
struct wire;

#define QUERY_MOST (FRAME_HEAD + FRAME_TAG) /* bytes of a query, and of its answer, which has as many as the query */

/* `seal`: the connection's keys; NULL: its frames have sums only. */
size_t query_ask(struct seal *seal, unsigned char question[QUERY_MOST]);
int query_hear(struct seal *seal, unsigned char *answer, size_t size, struct survey_doing *out);
bool query_answer(const acp_engine *e, const struct wire *wire); /* false: the connection is broken */

#endif
