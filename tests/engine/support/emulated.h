/* Put before base/linux.c where an emulator runs the engine: qemu makes up /proc/PID/stat, with a start of the process
 * that differs between its threads. By a second slash the file is the kernel's. */
#ifndef ACP_EMULATED_H
#define ACP_EMULATED_H

#include <fcntl.h>
#include <stdio.h>

static inline int open_of_the_kernel(const char *path, int flags)
{
    char beside[256];
    snprintf(beside, sizeof beside, "/%s", path);
    return open(beside, flags);
}
#define open open_of_the_kernel

#endif
