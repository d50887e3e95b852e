#ifndef ACP_CONNECTION_INPUT_H
#define ACP_CONNECTION_INPUT_H

#include "core/poller.h"

struct wire;

bool connection_input_ask(acp_lane *lane); /* false: it has brought nothing */
void connection_input_starve(acp_engine *e); /* input waits for memory */
enum due connection_input_due(const acp_engine *e);
bool connection_input_resume(acp_lane *lane); /* lets connections go on that waited for memory, if there is some */
bool connection_input_knows(acp_engine *e, struct wire *wire); /* is the peer that has called in the table? */
void connection_input_connected(acp_lane *lane, struct wire *wire);
bool connection_input_readable(acp_lane *lane, struct wire *wire); /* false: nothing had come */

#endif
