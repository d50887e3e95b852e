#ifndef ACP_CONNECTION_INPUT_H
#define ACP_CONNECTION_INPUT_H

#include "core/poller.h"

bool connection_input_ask(acp_lane *lane); /* false: it has brought nothing */
void connection_input_starve(acp_engine *e); /* input waits for memory */
enum due connection_input_due(const acp_engine *e);
bool connection_input_resume(acp_lane *lane); /* lets connections go on that waited for memory, if there is some */
void connection_input_ready(acp_lane *lane, uint32_t number, uint32_t events); /* of that connection */

#endif
