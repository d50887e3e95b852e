/* How much memory there is for this process. */
#ifndef ACP_CGROUP_H
#define ACP_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

uint64_t memory_available(void); /* bytes that may be taken without somebody being killed for want of memory */

/* What the limits of the control groups of this process leave, or (`whole`) allow at all, of a machine with so
 * much memory; UINT64_MAX: no limit. The files are those below `root`, which is "" but in tests. */
uint64_t groups_leave(const char *root, uint64_t machine, bool whole);

#endif
