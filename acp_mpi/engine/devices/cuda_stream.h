#ifndef ACP_CUDA_STREAM_H
#define ACP_CUDA_STREAM_H

#include "devices/cuda_context.h"

/* Copies and events: calls of the table of the kind (devices/kind.h). */
int cuda_stream_copy(void *state, const struct kind_copy *copy, struct kind_event **event, struct kind_fault *fault);
int cuda_stream_test(void *state, struct kind_event *event, struct kind_fault *fault);
int cuda_stream_wait(void *state, struct kind_event *event, struct kind_fault *fault);
int cuda_stream_mark(void *state, struct kind_place place, uint64_t stream, struct kind_event **event,
                     struct kind_fault *fault);
int cuda_stream_follow(void *state, struct kind_event *event, struct kind_place place, uint64_t stream,
                       struct kind_fault *fault);
int cuda_stream_notify(void *state, struct kind_event *event, void (*ring)(void *context), void *context,
                       struct kind_fault *fault);
/* Ends the streams of all devices, behind the last host function. */
void cuda_stream_close(struct cuda *c);

#endif
