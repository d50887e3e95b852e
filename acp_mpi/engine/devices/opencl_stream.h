#ifndef ACP_OPENCL_STREAM_H
#define ACP_OPENCL_STREAM_H

#include "devices/opencl_context.h"

/* Copies and events: calls of the table of the kind (devices/kind.h). */
int opencl_stream_copy(void *state, const struct kind_copy *copy, struct kind_event **event, struct kind_fault *fault);
int opencl_stream_test(void *state, struct kind_event *event, struct kind_fault *fault);
int opencl_stream_wait(void *state, struct kind_event *event, struct kind_fault *fault);
int opencl_stream_mark(void *state, struct kind_place place, uint64_t stream, struct kind_event **event,
                       struct kind_fault *fault);
int opencl_stream_follow(void *state, struct kind_event *event, struct kind_place place, uint64_t stream,
                         struct kind_fault *fault);
int opencl_stream_notify(void *state, struct kind_event *event, void (*ring)(void *context), void *context,
                         struct kind_fault *fault);

#endif
