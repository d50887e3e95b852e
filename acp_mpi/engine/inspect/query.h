#ifndef ACP_QUERY_H
#define ACP_QUERY_H

#include "core/engine.h"
#include "transport/frame.h"

struct survey_doing;
struct wire;

void query_ask(unsigned char question[FRAME_HEAD]);
int query_hear(const unsigned char answer[FRAME_HEAD], struct survey_doing *out);
bool query_answer(const acp_engine *e, const struct wire *wire); /* false: the connection is broken */

#endif
