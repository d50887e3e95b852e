/* Copies run in streams of the engine's own, of the highest priority, that do not wait for the program's default
 * stream. A copy that stands behind work of the program waits for it by an event, in another lane than the copies that
 * can start at once: a long kernel holds up only what has to come after it. */
#include "devices/cuda_stream.h"
#include "devices/cuda_memory.h"

#include <sched.h>
#include <stdlib.h>

#define HIGHEST (-1000) /* the driver takes the next priority that it has */

/* A recorded event. */
struct kind_event {
    struct kind_event *next; /* of the device's spare ones */
    cuda_event event;        /* NULL: it stands for nothing, and is done */
    int32_t device;
};

/* Makes it at its first use, with the device's context. */
static int stream_make(struct cuda *c, cuda_stream *stream, struct kind_fault *fault)
{
    if (*stream)
        return KIND_OK;
    return CUDA_DO(c, fault, cuStreamCreateWithPriority, stream, CUDA_STREAM_NON_BLOCKING, HIGHEST);
}

static int event_new(struct cuda *c, int32_t number, struct kind_event **event, struct kind_fault *fault)
{
    struct cuda_device *d = &c->devices[number];
    int rc = KIND_OK;
    pthread_mutex_lock(&d->lock);
    if ((*event = d->spare))
        d->spare = (*event)->next;
    pthread_mutex_unlock(&d->lock);
    if (!*event) {
        if (!(*event = calloc(1, sizeof **event)))
            return cuda_context_cannot(fault, "host memory is out");
        rc = CUDA_DO(c, fault, cuEventCreate, &(*event)->event, CUDA_EVENT_NO_TIMING);
    }
    if (rc != KIND_OK) {
        free(*event);
        *event = NULL;
        return rc;
    }
    (*event)->device = number;
    return KIND_OK;
}

static void event_end(struct cuda *c, struct kind_event *event)
{
    if (!event)
        return;
    if (!event->event) {
        free(event);
        return;
    }
    struct cuda_device *d = &c->devices[event->device];
    pthread_mutex_lock(&d->lock);
    event->next = d->spare;
    d->spare = event;
    pthread_mutex_unlock(&d->lock);
}

static cuda_address address_of(const struct kind_end *end)
{
    return end->block ? end->block->base + end->offset : (cuda_address)(uintptr_t)end->host;
}

/* The first lane, or, for a copy that waits, one in which nothing waits, if there is one. */
static int lane_choose(struct cuda *c, int32_t number, bool waits, struct cuda_lane **lane, struct kind_fault *fault)
{
    struct cuda_device *d = &c->devices[number];
    uint32_t at = waits;
    pthread_mutex_lock(&d->lock);
    while (waits && at < CUDA_LANES && d->lanes[at].last && c->call.cuEventQuery(d->lanes[at].last) != CUDA_OK)
        at++;
    if (at == CUDA_LANES)
        at = 1 + d->turn++ % (CUDA_LANES - 1);
    *lane = &d->lanes[at];
    int rc = stream_make(c, &(*lane)->stream, fault);
    if (rc == KIND_OK && waits && !(*lane)->last)
        rc = CUDA_DO(c, fault, cuEventCreate, &(*lane)->last, CUDA_EVENT_NO_TIMING);
    pthread_mutex_unlock(&d->lock);
    return rc;
}

/* The copy runs, and its memory must stay until it has ended: an event that is not recorded is tried once more. */
static int copy_mark(struct cuda *c, const struct cuda_lane *lane, bool waits, cuda_event event,
                     struct kind_fault *fault)
{
    int rc = CUDA_DO(c, fault, cuEventRecord, event, lane->stream);
    if (rc != KIND_OK)
        rc = CUDA_DO(c, fault, cuEventRecord, event, lane->stream);
    if (waits)
        c->call.cuEventRecord(lane->last, lane->stream);
    return rc;
}

static int copy_start(struct cuda *c, int32_t number, const struct kind_copy *copy, struct kind_event **event,
                      struct kind_fault *fault)
{
    struct cuda_lane *lane;
    cuda_event behind = copy->behind ? copy->behind->event : NULL;
    bool waits = behind && c->call.cuEventQuery(behind) != CUDA_OK;
    int rc = lane_choose(c, number, waits, &lane, fault);
    if (rc == KIND_OK)
        rc = event_new(c, number, event, fault);
    if (rc != KIND_OK)
        return rc;
    if (waits)
        rc = CUDA_DO(c, fault, cuStreamWaitEvent, lane->stream, behind, 0);
    if (rc == KIND_OK)
        rc = CUDA_DO(c, fault, cuMemcpyAsync, address_of(&copy->to), address_of(&copy->from), copy->size, lane->stream);
    if (rc == KIND_OK)
        rc = copy_mark(c, lane, waits, (*event)->event, fault);
    if (rc != KIND_OK) {
        event_end(c, *event);
        *event = NULL;
    }
    return rc;
}

int cuda_stream_copy(void *state, const struct kind_copy *copy, struct kind_event **event, struct kind_fault *fault)
{
    struct cuda *c = state;
    const struct kind_block *to = copy->to.block, *from = copy->from.block;
    int32_t number = to ? to->place.number : from->place.number;
    int rc = KIND_OK;
    *event = NULL;
    if (to && from && to->place.number != from->place.number && (cuda_memory_maps(to) || cuda_memory_maps(from)))
        rc = cuda_context_cannot(fault, "mapped memory is reached by its own device only");
    if (rc == KIND_OK)
        rc = cuda_context_enter(c, number, false, fault);
    if (rc == KIND_OK) {
        rc = copy_start(c, number, copy, event, fault);
        cuda_context_leave(c);
    }
    if (rc != KIND_CANNOT)
        event_end(c, copy->behind);
    return rc;
}

int cuda_stream_test(void *state, struct kind_event *event, struct kind_fault *fault)
{
    struct cuda *c = state;
    int rc = event->event ? CUDA_DO(c, fault, cuEventQuery, event->event) : KIND_OK;
    if (rc != KIND_BUSY)
        event_end(c, event);
    return rc;
}

int cuda_stream_wait(void *state, struct kind_event *event, struct kind_fault *fault)
{
    struct cuda *c = state;
    int rc = KIND_OK;
    if (event->event && cuda_context_enter(c, event->device, false, fault) == KIND_OK) {
        c->call.cuEventSynchronize(event->event);
        cuda_context_leave(c);
    }
    while (event->event && (rc = CUDA_DO(c, fault, cuEventQuery, event->event)) == KIND_BUSY)
        sched_yield(); /* the wait above has failed, which does not end the copy */
    event_end(c, event);
    return rc;
}

/* The array interface counts as DLPack does: 1 is the legacy default stream, 2 that of the thread. */
static cuda_stream stream_named(uint64_t stream)
{
    return stream ? (cuda_stream)(uintptr_t)stream : CUDA_STREAM_LEGACY;
}

/* A program that has no context on the device has put nothing into its streams. */
int cuda_stream_mark(void *state, struct kind_place place, uint64_t stream, struct kind_event **event,
                     struct kind_fault *fault)
{
    struct cuda *c = state;
    int32_t number;
    *event = NULL;
    int rc = cuda_context_number(c, place, &number, fault);
    if (rc != KIND_OK)
        return rc;
    if (!cuda_context_active(c, number))
        return (*event = calloc(1, sizeof **event)) ? KIND_OK : cuda_context_cannot(fault, "host memory is out");
    if ((rc = cuda_context_enter(c, number, false, fault)) != KIND_OK)
        return rc;
    rc = event_new(c, number, event, fault);
    if (rc == KIND_OK && (rc = CUDA_DO(c, fault, cuEventRecord, (*event)->event, stream_named(stream))) != KIND_OK) {
        event_end(c, *event);
        *event = NULL;
    }
    cuda_context_leave(c);
    return rc;
}

int cuda_stream_follow(void *state, struct kind_event *event, struct kind_place place, uint64_t stream,
                       struct kind_fault *fault)
{
    struct cuda *c = state;
    int32_t number;
    int rc = cuda_context_number(c, place, &number, fault);
    if (rc != KIND_OK || !event->event)
        return rc;
    if ((rc = cuda_context_enter(c, number, false, fault)) != KIND_OK)
        return rc;
    rc = CUDA_DO(c, fault, cuStreamWaitEvent, stream_named(stream), event->event, 0);
    cuda_context_leave(c);
    return rc;
}

/* Runs in a thread of the driver, and may not call it. */
static void rung(void *data)
{
    struct cuda_bell *bell = data;
    bell->ring(bell->context);
    atomic_store(&bell->busy, false);
}

/* A bell that hangs still; NULL: all are in use. */
static struct cuda_bell *bell_take(struct cuda_device *d)
{
    struct cuda_bell *bell = d->bells;
    while (bell < d->bells + CUDA_BELLS && atomic_exchange(&bell->busy, true))
        bell++;
    return bell < d->bells + CUDA_BELLS ? bell : NULL;
}

static int bell_wait(struct cuda *c, struct cuda_bell *bell, cuda_event event, struct kind_fault *fault)
{
    int rc = stream_make(c, &bell->stream, fault);
    if (rc == KIND_OK)
        rc = CUDA_DO(c, fault, cuStreamWaitEvent, bell->stream, event, 0);
    return rc == KIND_OK ? CUDA_DO(c, fault, cuLaunchHostFunc, bell->stream, rung, bell) : rc;
}

/* KIND_CANNOT, too, if very many events are waited for: the caller asks for them then. */
int cuda_stream_notify(void *state, struct kind_event *event, void (*ring)(void *context), void *context,
                       struct kind_fault *fault)
{
    struct cuda *c = state;
    if (!event->event) {
        ring(context);
        return KIND_OK;
    }
    struct cuda_bell *bell = bell_take(&c->devices[event->device]);
    if (!bell)
        return cuda_context_cannot(fault, "all bells are in use");
    bell->ring = ring;
    bell->context = context;
    int rc = cuda_context_enter(c, event->device, false, fault);
    if (rc == KIND_OK) {
        rc = bell_wait(c, bell, event->event, fault);
        cuda_context_leave(c);
    }
    if (rc != KIND_OK)
        atomic_store(&bell->busy, false);
    return rc;
}

/* A host function has returned when its stream goes on. A context that an error has ended runs none any more. */
static void bell_close(struct cuda *c, int32_t number, const struct cuda_bell *bell)
{
    struct kind_event *event;
    struct kind_fault fault;
    if (!bell->stream)
        return;
    if (event_new(c, number, &event, &fault) == KIND_OK) {
        if (c->call.cuEventRecord(event->event, bell->stream) == CUDA_OK)
            c->call.cuEventSynchronize(event->event);
        event_end(c, event);
    }
    c->call.cuStreamDestroy_v2(bell->stream);
}

/* With the device's context. */
static void device_close(struct cuda *c, int32_t number)
{
    struct cuda_device *d = &c->devices[number];
    for (uint32_t i = 0; i < CUDA_BELLS; i++)
        bell_close(c, number, &d->bells[i]);
    for (uint32_t i = 0; i < CUDA_LANES; i++) {
        if (d->lanes[i].last)
            c->call.cuEventDestroy_v2(d->lanes[i].last);
        if (d->lanes[i].stream)
            c->call.cuStreamDestroy_v2(d->lanes[i].stream);
    }
    for (struct kind_event *event = d->spare; event; event = event->next)
        c->call.cuEventDestroy_v2(event->event);
}

void cuda_stream_close(struct cuda *c)
{
    for (int32_t number = 0; number < (int32_t)c->count; number++) {
        struct cuda_device *d = &c->devices[number];
        struct kind_fault fault;
        if (d->context && cuda_context_enter(c, number, false, &fault) == KIND_OK) {
            device_close(c, number);
            cuda_context_leave(c);
        }
        for (struct kind_event *event = d->spare, *next; event; event = next) {
            next = event->next;
            free(event);
        }
    }
}
