#ifndef ACP_DEVICE_KINDS_H
#define ACP_DEVICE_KINDS_H

#include "core/engine_state.h"
#include "devices/kind.h"

/* The kinds of device memory that an engine knows. A kind is opened at its first use; NULL: not known or not usable,
 * with ACP_E_DRIVER in the lane's fault. */
struct device_kind *device_kinds_open(acp_lane *lane, int32_t number);
struct device_kind *device_kinds_opened(acp_engine *e, int32_t number); /* NULL: not open now */
/* The lane's fault for what a kind has returned, and its words for the caller. */
int device_kinds_fail(acp_lane *lane, int rc, const struct kind_fault *fault);
void device_kinds_close(acp_engine *e); /* no block and no event is left */

#endif
