/* The calls of core/acp.h on the engine of this process, for programs and extensions in C. */
#ifndef ACP_C_API_H
#define ACP_C_API_H

#include "core/engine.h"

extern const struct acp_api c_api_functions;
extern _Thread_local acp_handle_t c_api_previous; /* ACP_HANDLE_CONT here; Python's calls share it */

void c_api_open(acp_engine *engine);
void c_api_close(void); /* before the engine is freed: no call begins on it any more */
void c_api_forked(void);

#endif
