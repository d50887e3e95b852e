#ifndef ACP_OPENCL_CONTEXT_H
#define ACP_OPENCL_CONTEXT_H

#include "devices/kind.h"
#include "devices/opencl_driver.h"

#include <pthread.h>

struct opencl_device {
    opencl_device_id id;
    opencl_context usual; /* made at the first use without a context of the program, or NULL */
    uint8_t identity[16]; /* the same in all processes of the node */
    _Atomic bool shares;          /* its memory is the host's, as it is: no copy of it is kept elsewhere */
    char name[64];
};

/* A context as this process uses it, with a queue of its own for copies. */
struct opencl_use {
    struct opencl_use *next;
    opencl_context context;
    opencl_queue queue;
    uint32_t device; /* the first of the context */
    uint32_t count;  /* blocks, and the device whose usual context it is; the last one ends it */
};

#define OPENCL_POINTER(result, name, arguments) result(*name) arguments;

/* OpenCL as one engine uses it. */
struct opencl {
    struct { OPENCL_CALLS(OPENCL_POINTER) } call;
    struct opencl_device *devices; /* of all platforms, one after the other */
    uint32_t count;
    pthread_mutex_t lock; /* of all below, and of the devices' contexts */
    struct opencl_use *uses;
    pthread_cond_t rung;
    uint32_t bells; /* events for which somebody is to ring */
};

/* Loads OpenCL, and asks it for its devices. No context is made. */
int opencl_context_open(struct opencl **state, struct kind_fault *fault);
void opencl_context_close(struct opencl *o);

/* Calls OpenCL; an `enum kind_status`, with the fault filled. */
#define OPENCL_DO(o, fault, name, ...) opencl_context_status(fault, #name, (o)->call.name(__VA_ARGS__))
int opencl_context_status(struct kind_fault *fault, const char *call, opencl_status status);
int opencl_context_cannot(struct kind_fault *fault, const char *words);

/* The context of a place, held until opencl_context_drop: the program's, or the usual one of the device, which this makes.
 * KIND_CANNOT: there is no such device. */
int opencl_context_hold(struct opencl *o, struct kind_place place, struct opencl_use **use, struct kind_fault *fault);
void opencl_context_drop(struct opencl *o, struct opencl_use *use);
/* A context in use here with the device of that identity, held; NULL: there is none. */
struct opencl_use *opencl_context_using(struct opencl *o, const uint8_t identity[16]);
bool opencl_context_active(struct opencl *o, uint32_t device);

#endif
