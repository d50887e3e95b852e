/* The stand-in for NVIDIA's driver: a `libcuda.so.1` without a device, in which the faults that a user of the driver
 * may have show. Device memory is a memory file that the processor cannot reach at its device address; streams are
 * late on purpose; contexts, the rules of sharing memory with other processes, and freed memory are checked. A use
 * that the driver's manual calls undefined ends the process with a line that begins with "stand-in:".
 *
 * The environment says what the machine has, as read by `cuInit`:
 *   FAKE_DEVICES   number of devices (1); 0: the driver has none
 *   CUDA_VISIBLE_DEVICES  their numbers, in the order in which this process counts them
 *   FAKE_MEMORY    bytes of each (1 GiB)
 *   FAKE_DELAY     usual delay of a task of a stream, in microseconds (200); 0: none
 *   FAKE_SEED      of the delays (1)
 *   FAKE_NO_IPC    nothing has a name for other processes
 *   FAKE_NO_FD     physical memory has no descriptor for other processes
 *   FAKE_NO_VMM    physical memory and addresses are not apart
 *   FAKE_POOL      memory of cuMemAlloc is as that of a pool, which has no name for other processes
 *   FAKE_NO_PEER   devices cannot reach each other's memory
 *   FAKE_FRESH     the address of freed memory is not used again
 *   FAKE_BREAK     the copy of this number (1 is the first) breaks its context, as a bad address in a kernel does
 *   FAKE_LEAKS     a process that ends with imports open does so by SIGABRT; otherwise it says so only */
#ifndef ACP_STANDIN_H
#define ACP_STANDIN_H

#include "devices/cuda_driver.h"

#include <stdbool.h>

/* CALL(result, name, arguments) of what a test may ask of the stand-in beside the driver's calls. */
#define STANDIN_CALLS(CALL)                                                                                            \
    /* Holds a stream of the current context before its next task, or lets it go on. */                                \
    CALL(void, standin_hold, (cuda_stream stream))                                                                     \
    CALL(void, standin_go_on, (cuda_stream stream))                                                                    \
    /* Returns when every task has run that can run without a stream that is held. */                                  \
    CALL(void, standin_settle, (void))                                                                                 \
    /* The bytes of device memory, for comparisons; NULL: none is there. */                                            \
    CALL(unsigned char *, standin_bytes, (cuda_address address))                                                       \
    /* The call of that name fails once, after so many that do not; NULL: none. False: the last one has not come. */   \
    CALL(bool, standin_fail, (const char *name, unsigned after))                                                       \
    /* Numbers of this process: imports that are open; contexts, and streams that were made in them; blocks of         \
       physical memory; addresses that are reserved; events; tasks that have run. */                                   \
    CALL(unsigned, standin_imports, (void))                                                                            \
    CALL(unsigned, standin_contexts, (void))                                                                           \
    CALL(unsigned, standin_streams, (void))                                                                            \
    CALL(unsigned, standin_blocks, (void))                                                                             \
    CALL(unsigned, standin_reserved, (void))                                                                           \
    CALL(unsigned, standin_events, (void))                                                                             \
    CALL(unsigned, standin_tasks, (void))

#define CUDA_PROTOTYPE(name, arguments) __attribute__((visibility("default"))) cuda_status name arguments;
CUDA_CALLS(CUDA_PROTOTYPE)
#define STANDIN_PROTOTYPE(result, name, arguments) __attribute__((visibility("default"))) result name arguments;
STANDIN_CALLS(STANDIN_PROTOTYPE)

#endif
