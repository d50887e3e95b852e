/* Copies stand behind an event of the program's queue, if there is one, in a queue of the engine's own. Between memory
 * that the processor loads and stores a short copy that need not wait is made at once, which takes less time than a
 * command does. A stream is a queue of the program: OpenCL has none that is the usual one. */
#include "devices/opencl_stream.h"
#include "devices/opencl_memory.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE ((uint64_t)1 << 20)
#define NO_QUEUE ((uint64_t)4096) /* below are numbers of streams of other kinds */

struct kind_event {
    opencl_event event;
    opencl_context context;
};

static bool is_over(struct opencl *o, const struct kind_event *event)
{
    opencl_status status = 1;
    return !event ||
           (o->call.clGetEventInfo(event->event, OPENCL_EVENT_STATUS, sizeof status, &status, NULL) == OPENCL_OK &&
            status == OPENCL_COMPLETE);
}

static void over(struct opencl *o, struct kind_event *event)
{
    if (!event)
        return;
    o->call.clReleaseEvent(event->event);
    free(event);
}

static unsigned char *host_of(const struct kind_end *end)
{
    const struct opencl_block *own = end->block ? end->block->own : NULL;
    return !own ? end->host : own->host ? own->host + end->offset : NULL;
}

/* The context that can do it, with the other end in its host memory if it has to be. NULL: none can. */
static struct opencl_use *side_choose(const struct kind_copy *copy)
{
    const struct opencl_block *to = copy->to.block ? copy->to.block->own : NULL;
    const struct opencl_block *from = copy->from.block ? copy->from.block->own : NULL;
    if (to && (!from || from->use == to->use || from->host))
        return to->use;
    return from && (!to || to->host) ? from->use : NULL;
}

static int copy_enqueue(struct opencl *o, struct opencl_use *use, const struct kind_copy *copy, opencl_event *event,
                        struct kind_fault *fault)
{
    const struct opencl_block *to = copy->to.block ? copy->to.block->own : NULL;
    const struct opencl_block *from = copy->from.block ? copy->from.block->own : NULL;
    uint32_t count = !is_over(o, copy->behind);
    const opencl_event *behind = count ? &copy->behind->event : NULL;
    int rc;
    if (to && from && to->use == from->use)
        rc = OPENCL_DO(o, fault, clEnqueueCopyBuffer, use->queue, from->memory, to->memory, copy->from.offset,
                       copy->to.offset, copy->size, count, behind, event);
    else if (to && use == to->use)
        rc = OPENCL_DO(o, fault, clEnqueueWriteBuffer, use->queue, to->memory, 0, copy->to.offset, copy->size,
                       host_of(&copy->from), count, behind, event);
    else
        rc = OPENCL_DO(o, fault, clEnqueueReadBuffer, use->queue, from->memory, 0, copy->from.offset, copy->size,
                       host_of(&copy->to), count, behind, event);
    if (rc == KIND_OK)
        o->call.clFlush(use->queue);
    return rc;
}

static int event_make(struct opencl_use *use, struct kind_event **event, struct kind_fault *fault)
{
    if (!(*event = calloc(1, sizeof **event)))
        return opencl_context_cannot(fault, "host memory is out");
    (*event)->context = use->context;
    return KIND_OK;
}

int opencl_stream_copy(void *state, const struct kind_copy *copy, struct kind_event **event, struct kind_fault *fault)
{
    struct opencl *o = state;
    unsigned char *to = host_of(&copy->to), *from = host_of(&copy->from);
    struct opencl_use *use = side_choose(copy);
    bool waits = !is_over(o, copy->behind);
    *event = NULL;
    if (!use)
        return opencl_context_cannot(fault, "the buffers are of two contexts");
    if (waits && copy->behind->context != use->context)
        return opencl_context_cannot(fault, "the queue is of another context than the buffer");
    int rc = KIND_OK;
    if (to && from && !waits && copy->size <= AT_ONCE) {
        memmove(to, from, copy->size);
    } else if ((rc = event_make(use, event, fault)) == KIND_OK &&
               (rc = copy_enqueue(o, use, copy, &(*event)->event, fault)) != KIND_OK) {
        free(*event);
        *event = NULL;
    }
    if (rc != KIND_CANNOT)
        over(o, copy->behind);
    return rc;
}

int opencl_stream_test(void *state, struct kind_event *event, struct kind_fault *fault)
{
    struct opencl *o = state;
    opencl_status status = OPENCL_COMPLETE;
    int rc = OPENCL_DO(o, fault, clGetEventInfo, event->event, OPENCL_EVENT_STATUS, sizeof status, &status, NULL);
    if (rc == KIND_OK && status > OPENCL_COMPLETE)
        return KIND_BUSY;
    if (rc == KIND_OK)
        rc = opencl_context_status(fault, "a command", status);
    over(o, event);
    return rc;
}

int opencl_stream_wait(void *state, struct kind_event *event, struct kind_fault *fault)
{
    struct opencl *o = state;
    int rc;
    o->call.clWaitForEvents(1, &event->event);
    while ((rc = opencl_stream_test(state, event, fault)) == KIND_BUSY)
        sched_yield(); /* the wait has failed, which does not end the copy */
    return rc;
}

static int queue_of(struct kind_place place, uint64_t stream, opencl_queue *queue, struct kind_fault *fault)
{
    uint64_t number = stream ? stream : place.stream;
    *queue = (opencl_queue)(uintptr_t)number;
    return number && number < NO_QUEUE ? opencl_context_status(fault, "stream", OPENCL_INVALID_COMMAND_QUEUE) : KIND_OK;
}

int opencl_stream_mark(void *state, struct kind_place place, uint64_t stream, struct kind_event **event,
                       struct kind_fault *fault)
{
    struct opencl *o = state;
    opencl_queue queue;
    *event = NULL;
    int rc = queue_of(place, stream, &queue, fault);
    if (rc != KIND_OK || !queue)
        return rc;
    struct kind_event *made = calloc(1, sizeof *made);
    if (!made)
        return opencl_context_cannot(fault, "host memory is out");
    rc = OPENCL_DO(o, fault, clGetCommandQueueInfo, queue, OPENCL_QUEUE_CONTEXT, sizeof made->context, &made->context,
                   NULL);
    if (rc == KIND_OK)
        rc = OPENCL_DO(o, fault, clEnqueueMarkerWithWaitList, queue, 0, NULL, &made->event);
    if (rc == KIND_OK) {
        o->call.clFlush(queue);
        *event = made;
        return rc;
    }
    free(made);
    return rc;
}

int opencl_stream_follow(void *state, struct kind_event *event, struct kind_place place, uint64_t stream,
                         struct kind_fault *fault)
{
    struct opencl *o = state;
    opencl_queue queue;
    int rc = queue_of(place, stream, &queue, fault);
    if (rc != KIND_OK || !queue || is_over(o, event))
        return rc;
    rc = OPENCL_DO(o, fault, clEnqueueBarrierWithWaitList, queue, 1, &event->event, NULL);
    if (rc == KIND_OK)
        o->call.clFlush(queue);
    return rc;
}

struct bell {
    struct opencl *o;
    void (*ring)(void *);
    void *context;
};

/* In a thread of the driver. */
static void bell_ring(opencl_event event, opencl_status status, void *data)
{
    struct bell *bell = data;
    struct opencl *o = bell->o;
    (void)event;
    (void)status;
    pthread_mutex_lock(&o->lock);
    bell->ring(bell->context);
    o->bells--;
    pthread_cond_broadcast(&o->rung);
    pthread_mutex_unlock(&o->lock);
    free(bell);
}

int opencl_stream_notify(void *state, struct kind_event *event, void (*ring)(void *context), void *context,
                         struct kind_fault *fault)
{
    struct opencl *o = state;
    if (is_over(o, event)) {
        ring(context);
        return KIND_OK;
    }
    struct bell *bell = malloc(sizeof *bell);
    if (!bell)
        return opencl_context_cannot(fault, "host memory is out");
    *bell = (struct bell){o, ring, context};
    pthread_mutex_lock(&o->lock);
    o->bells++;
    pthread_mutex_unlock(&o->lock);
    int rc = OPENCL_DO(o, fault, clSetEventCallback, event->event, OPENCL_COMPLETE, bell_ring, bell);
    if (rc == KIND_OK)
        return rc;
    pthread_mutex_lock(&o->lock);
    o->bells--;
    pthread_mutex_unlock(&o->lock);
    free(bell);
    return KIND_CANNOT;
}
