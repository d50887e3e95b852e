/* How much memory there is for this process. */
#ifndef ACP_CGROUP_H
#define ACP_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

uint64_t cgroup_available(void); /* bytes that this process may take before the kernel kills for want of memory */

/* Memory that the control groups of this process leave free, or (`whole`) allow at all, on a machine with `machine`
 * bytes; UINT64_MAX: no limit. Their files are those below `root`, which is "" but in tests. */
uint64_t cgroup_left(const char *root, uint64_t machine, bool whole);

#endif
