#ifndef ACP_CUDA_CONTEXT_H
#define ACP_CUDA_CONTEXT_H

#include "devices/cuda_driver.h"
#include "devices/kind.h"

#include <pthread.h>
#include <stdatomic.h>

#define CUDA_LANES 8u
#define CUDA_BELLS 16u

/* A stream for copies. The first lane is for copies that start at once: none of them stands behind a kernel of the
 * program. */
struct cuda_lane {
    cuda_stream stream; /* NULL: not used yet */
    cuda_event last;    /* of the last copy that waits for something, or NULL */
};

/* A stream for a host function that says when an event has happened. One at a time: no event waits for another. */
struct cuda_bell {
    cuda_stream stream; /* NULL: not used yet */
    atomic_bool busy;
    void (*ring)(void *);
    void *context;
};

struct cuda_device {
    _Atomic(cuda_context) context; /* the primary one, held; NULL: not used here yet */
    uint8_t uuid[16];
    bool maps, descriptors;        /* physical memory is apart from its addresses, and has descriptors */
    pthread_mutex_t lock;          /* of all below */
    struct cuda_lane lanes[CUDA_LANES];
    uint32_t turn;                 /* of lanes, when all are busy */
    struct cuda_bell bells[CUDA_BELLS];
    struct kind_event *spare;      /* events that nothing uses */
};

#define CUDA_POINTER(name, arguments) cuda_status(*name) arguments;

/* The driver as one engine uses it. */
struct cuda {
    struct { CUDA_CALLS(CUDA_POINTER) } call;
    uint32_t count;
    struct cuda_device *devices;
};

/* Loads the driver, and asks it for its devices. No context is made. */
int cuda_context_open(struct cuda **state, struct kind_fault *fault);
void cuda_context_close(struct cuda *c); /* lets go of the contexts */

/* Calls the driver; an `enum kind_status`, with the fault filled. */
#define CUDA_DO(c, fault, name, ...) cuda_context_status(c, fault, #name, (c)->call.name(__VA_ARGS__))
int cuda_context_status(struct cuda *c, struct kind_fault *fault, const char *call, cuda_status status);
int cuda_context_cannot(struct kind_fault *fault, const char *words);

/* The number of a place's device. KIND_CANNOT: there is none, or the context is not the primary one. */
int cuda_context_number(struct cuda *c, struct kind_place place, int32_t *number, struct kind_fault *fault);
bool cuda_context_active(struct cuda *c, int32_t number);
/* The device of this process that can map memory of the device with that UUID: the same one, if this process has a
 * context there, or one with a context that reaches it as a peer; -1: none. */
int32_t cuda_context_mapping(struct cuda *c, const uint8_t uuid[16]);

/* Makes the device's primary context current until `cuda_context_leave`, which is called only after KIND_OK. Without
 * `make` a context that does not exist is KIND_CANNOT. */
int cuda_context_enter(struct cuda *c, int32_t number, bool make, struct kind_fault *fault);
void cuda_context_leave(struct cuda *c);

#endif
