/* The whole test framework: a failed CHECK says where and ends the program. */
#ifndef ACP_CHECK_H
#define ACP_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__,         \
                    #condition);                                               \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

#endif
