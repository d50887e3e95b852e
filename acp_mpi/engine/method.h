/* The numbers of all methods. They travel, so one keeps its meaning. */
#ifndef ACP_METHOD_H
#define ACP_METHOD_H

enum method {
    METHOD_MALLOC = 1, METHOD_FREE, METHOD_HEAP_LOOK, METHOD_HEAP_TIDY,
    METHOD_CREATE = 0x08, METHOD_DESTROY, METHOD_DESCRIBE,
    METHOD_COUNTER_ADD = 0x10, METHOD_COUNTER_SET,
};

#endif
