/* A counter: a word in the head that all ranks step by processor atomics, without its section. */
#ifndef ACP_COUNTER_H
#define ACP_COUNTER_H

#include "containers/container.h"

struct counter {
    struct container head;
    uint64_t value;
};

extern const struct container_type counter_type;

int counter_method_add(acp_lane *lane, struct acp_call *call); /* `b`; the value before */
int counter_method_set(acp_lane *lane, struct acp_call *call);

#endif
