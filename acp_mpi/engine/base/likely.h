/* Which way a branch usually goes. */
#ifndef ACP_LIKELY_H
#define ACP_LIKELY_H

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
