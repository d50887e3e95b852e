/* Included first where the lines that tests run are counted: a process that ends at once leaves its counts behind. */
#ifndef ACP_LEAVING_H
#define ACP_LEAVING_H

#include <signal.h>
#include <unistd.h>

extern void __gcov_dump(void);

#define _exit(code) (__gcov_dump(), _exit(code))
#define raise(signal) (__gcov_dump(), raise(signal))
#define kill(process, signal) ((process) == getpid() ? __gcov_dump() : (void)0, kill(process, signal))

#endif
