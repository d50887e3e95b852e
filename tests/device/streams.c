/* Streams, each with a thread that is late on purpose, and events. */
#include "inside.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

_Thread_local bool stream_in_host_function;

struct cuda_stream *stream_new(struct cuda_context *context, bool blocking)
{
    struct cuda_stream *stream = standin_new(sizeof *stream);
    *stream = (struct cuda_stream){.context = context, .blocking = blocking};
    stream->random = (standin.seed * 0x9E3779B97F4A7C15u) ^ ++standin.numbers;
    if (!stream->random)
        stream->random = 1;
    return stream;
}

static void stamp_leave(struct stamp *stamp)
{
    if (stamp && !--stamp->users)
        free(stamp);
}

static struct cuda_stream *stream_add(struct cuda_context *context, bool blocking)
{
    struct cuda_stream *stream = stream_new(context, blocking), **at = &context->streams->next;
    stream->next = *at;
    return *at = stream;
}

/* Finds the stream of a handle; NULL: there is none. */
static struct cuda_stream *find(struct cuda_context *context, cuda_stream handle)
{
    if (handle == CUDA_STREAM_DEFAULT || handle == CUDA_STREAM_LEGACY)
        return context->streams;
    if (handle == CUDA_STREAM_PER_THREAD) {
        struct cuda_stream *stream = context->streams;
        while (stream && !(stream->of_thread && pthread_equal(stream->owner, pthread_self())))
            stream = stream->next;
        if (!stream) {
            stream = stream_add(context, true);
            stream->of_thread = true;
            stream->owner = pthread_self();
        }
        return stream;
    }
    for (struct cuda_context *each = standin.contexts; each; each = each->earlier)
        for (struct cuda_stream *stream = each->streams; stream; stream = stream->next)
            if (stream == handle)
                return stream->ending ? NULL : stream;
    return NULL;
}

/* Tasks ---------------------------------------------------------------------------------------------------------- */

static bool has_before(const struct cuda_stream *stream, uint64_t number)
{
    return stream->first && stream->first->number < number;
}

/* Whether the first task may run: nothing that it has to stand behind is left. */
static bool ready(const struct cuda_stream *stream)
{
    const struct task *task = stream->first;
    const struct cuda_stream *legacy = stream->context->streams;
    if (stream->context->broken)
        return true;
    if (stream->held || (task->kind == TASK_WAIT && !task->stamp->done))
        return false;
    if (stream != legacy)
        return !stream->blocking || !has_before(legacy, task->number);
    for (const struct cuda_stream *other = legacy->next; other; other = other->next)
        if (other->blocking && has_before(other, task->number))
            return false;
    return true;
}

/* Waits as the stream's own random numbers say, without the lock: mostly less than the usual delay, at times more. */
static void be_late(struct cuda_stream *stream)
{
    if (!standin.delay)
        return;
    uint64_t random = standin_random(&stream->random);
    uint64_t most = (uint64_t)standin.delay * (random % 16 ? 1000 : 8000);
    struct timespec late = {0, (long)((random >> 8) % most % 999999999)};
    pthread_mutex_unlock(&standin.lock);
    nanosleep(&late, NULL);
    pthread_mutex_lock(&standin.lock);
}

static void run(struct cuda_stream *stream, struct task *task)
{
    struct cuda_context *context = stream->context;
    if (task->kind == TASK_COPY && ++standin.copies == standin.break_at)
        context->broken = CUDA_BAD_ADDRESS;
    standin.tasks++;
    if (task->kind == TASK_RECORD)
        task->stamp->done = true;
    else if (task->kind == TASK_COPY && !context->broken)
        memory_copy(task);
    else if (task->kind == TASK_CALL && !context->broken) {
        pthread_mutex_unlock(&standin.lock);
        stream_in_host_function = true;
        task->function(task->data);
        stream_in_host_function = false;
        pthread_mutex_lock(&standin.lock);
    }
}

static void unlink_stream(struct cuda_stream *stream)
{
    struct cuda_stream **at = &stream->context->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream);
}

static void *work(void *data)
{
    struct cuda_stream *stream = data;
    pthread_mutex_lock(&standin.lock);
    while (stream->first || !stream->ending) {
        if (!stream->first || !ready(stream)) {
            pthread_cond_wait(&standin.changed, &standin.lock);
            continue;
        }
        struct task *task = stream->first;
        stream->busy = true;
        be_late(stream);
        stream->busy = false;
        if (!ready(stream)) /* it is held since */
            continue;
        stream->busy = true;
        run(stream, task);
        stream->busy = false;
        stream->first = task->next;
        stamp_leave(task->stamp);
        free(task);
        pthread_cond_broadcast(&standin.changed);
    }
    unlink_stream(stream);
    pthread_cond_broadcast(&standin.changed);
    pthread_mutex_unlock(&standin.lock);
    return NULL;
}

static void start(struct cuda_stream *stream)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's */
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, work, stream))
        standin_complain("a stream gets no thread");
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    stream->started = true;
}

static void enqueue(struct cuda_stream *stream, struct task like)
{
    struct task *task = standin_new(sizeof *task);
    *task = like;
    task->number = ++standin.numbers;
    if (task->stamp)
        task->stamp->users++;
    if (stream->first)
        stream->last->next = task;
    else
        stream->first = task;
    stream->last = task;
    if (!stream->started)
        start(stream);
    pthread_cond_broadcast(&standin.changed);
}

static void end(struct cuda_stream *stream)
{
    stream->ending = true;
    stream->held = false;
    if (!stream->started)
        unlink_stream(stream);
    pthread_cond_broadcast(&standin.changed);
}

/* The legacy stream is the last, for the others ask it whether they may go on. */
void stream_end_all(struct cuda_context *context)
{
    for (struct cuda_stream *stream = context->streams->next, *next; stream; stream = next) {
        next = stream->next;
        end(stream);
    }
    while (context->streams->next)
        pthread_cond_wait(&standin.changed, &standin.lock);
    end(context->streams);
    while (context->streams)
        pthread_cond_wait(&standin.changed, &standin.lock);
}

cuda_status cuStreamCreateWithPriority(cuda_stream *stream, unsigned flags, int priority)
{
    struct cuda_context *context;
    ENTER(&context);
    (void)priority; /* one outside of the device's bounds is cut to them */
    REFUSE_IF(flags & ~(unsigned)CUDA_STREAM_NON_BLOCKING, CUDA_BAD_VALUE);
    *stream = stream_add(context, !(flags & CUDA_STREAM_NON_BLOCKING));
    LEAVE(CUDA_OK);
}

/* Returns at once; the stream ends with its tasks. */
cuda_status cuStreamDestroy_v2(cuda_stream handle)
{
    struct cuda_context *context;
    ENTER(&context);
    struct cuda_stream *stream = find(context, handle);
    REFUSE_IF(!stream || stream == stream->context->streams || stream->of_thread, CUDA_BAD_HANDLE);
    REFUSE_IF(stream->context != context, CUDA_BAD_CONTEXT);
    end(stream);
    LEAVE(CUDA_OK);
}

cuda_status cuMemcpyAsync(cuda_address to, cuda_address from, size_t size, cuda_stream handle)
{
    struct cuda_context *context;
    ENTER(&context);
    struct cuda_stream *stream = find(context, handle);
    REFUSE_IF(!stream, CUDA_BAD_HANDLE);
    REFUSE_IF(stream->context != context, CUDA_BAD_CONTEXT);
    struct task task = {.kind = TASK_COPY, .to = to, .from = from, .size = size};
    cuda_status refused = memory_check(to, size, true, &task.to_buffer);
    if (!refused)
        refused = memory_check(from, size, false, &task.from_buffer);
    REFUSE_IF(refused, refused);
    if (size)
        enqueue(stream, task);
    LEAVE(CUDA_OK);
}

cuda_status cuLaunchHostFunc(cuda_stream handle, cuda_host_function function, void *data)
{
    struct cuda_context *context;
    ENTER(&context);
    struct cuda_stream *stream = find(context, handle);
    REFUSE_IF(!stream || !function, CUDA_BAD_HANDLE);
    REFUSE_IF(stream->context != context, CUDA_BAD_CONTEXT);
    enqueue(stream, (struct task){.kind = TASK_CALL, .function = function, .data = data});
    LEAVE(CUDA_OK);
}

/* Events --------------------------------------------------------------------------------------------------------- */

static bool known(const struct cuda_event *event)
{
    const struct cuda_event *each = standin.events;
    while (each && each != event)
        each = each->next;
    return each;
}

cuda_status cuEventCreate(cuda_event *event, unsigned flags)
{
    struct cuda_context *context;
    ENTER(&context);
    REFUSE_IF(flags & ~3u, CUDA_BAD_VALUE);
    *event = standin_new(sizeof **event);
    **event = (struct cuda_event){.context = context, .next = standin.events};
    standin.events = *event;
    LEAVE(CUDA_OK);
}

cuda_status cuEventDestroy_v2(cuda_event event)
{
    struct cuda_context *context;
    ENTER(&context);
    struct cuda_event **at = &standin.events;
    while (*at && *at != event)
        at = &(*at)->next;
    REFUSE_IF(!*at, CUDA_BAD_HANDLE);
    *at = event->next;
    stamp_leave(event->stamp);
    free(event);
    LEAVE(CUDA_OK);
}

cuda_status cuEventRecord(cuda_event event, cuda_stream handle)
{
    struct cuda_context *context;
    ENTER(&context);
    struct cuda_stream *stream = find(context, handle);
    REFUSE_IF(!stream || !known(event) || event->context != stream->context, CUDA_BAD_HANDLE);
    REFUSE_IF(stream->context != context, CUDA_BAD_CONTEXT);
    stamp_leave(event->stamp);
    event->stamp = standin_new(sizeof *event->stamp);
    event->stamp->users = 1;
    enqueue(stream, (struct task){.kind = TASK_RECORD, .stamp = event->stamp});
    LEAVE(CUDA_OK);
}

/* Of any context, even another one than the stream's: what the event stands for is taken now. */
cuda_status cuStreamWaitEvent(cuda_stream handle, cuda_event event, unsigned flags)
{
    struct cuda_context *context;
    ENTER(&context);
    struct cuda_stream *stream = find(context, handle);
    REFUSE_IF(!stream || !known(event), CUDA_BAD_HANDLE);
    REFUSE_IF(stream->context != context, CUDA_BAD_CONTEXT);
    REFUSE_IF(flags, CUDA_BAD_VALUE);
    if (event->stamp)
        enqueue(stream, (struct task){.kind = TASK_WAIT, .stamp = event->stamp});
    LEAVE(CUDA_OK);
}

cuda_status cuEventQuery(cuda_event event)
{
    ENTER(NULL);
    REFUSE_IF(!known(event), CUDA_BAD_HANDLE);
    REFUSE_IF(!event->context->alive, CUDA_CONTEXT_DESTROYED);
    REFUSE_IF(event->context->broken, event->context->broken);
    LEAVE(event->stamp && !event->stamp->done ? CUDA_NOT_READY : CUDA_OK);
}

cuda_status cuEventSynchronize(cuda_event event)
{
    struct cuda_context *context;
    ENTER(&context);
    REFUSE_IF(!known(event), CUDA_BAD_HANDLE);
    struct stamp *stamp = event->stamp;
    cuda_status *broken = &event->context->broken;
    if (stamp) {
        stamp->users++;
        while (!stamp->done && !*broken)
            pthread_cond_wait(&standin.changed, &standin.lock);
        stamp_leave(stamp);
    }
    LEAVE(*broken);
}

/* What tests ask ------------------------------------------------------------------------------------------------- */

static void hold(cuda_stream handle, bool held)
{
    struct cuda_context *context;
    if (standin_enter("standin_hold", &context))
        standin_complain("a stream is held without a context");
    struct cuda_stream *stream = find(context, handle);
    if (!stream)
        standin_complain("a stream is held that does not exist");
    stream->held = held;
    pthread_cond_broadcast(&standin.changed);
    standin_leave(CUDA_OK);
}

void standin_hold(cuda_stream stream)
{
    hold(stream, true);
}

void standin_go_on(cuda_stream stream)
{
    hold(stream, false);
}

static bool settled(void)
{
    for (struct cuda_context *context = standin.contexts; context; context = context->earlier)
        for (struct cuda_stream *stream = context->streams; stream; stream = stream->next)
            if (stream->busy || (stream->first && ready(stream)))
                return false;
    return true;
}

void standin_settle(void)
{
    pthread_mutex_lock(&standin.lock);
    while (!settled())
        pthread_cond_wait(&standin.changed, &standin.lock);
    pthread_mutex_unlock(&standin.lock);
}

unsigned standin_tasks(void)
{
    pthread_mutex_lock(&standin.lock);
    unsigned tasks = standin.tasks;
    pthread_mutex_unlock(&standin.lock);
    return tasks;
}

unsigned standin_streams(void)
{
    pthread_mutex_lock(&standin.lock);
    unsigned count = 0;
    for (struct cuda_context *context = standin.contexts; context; context = context->earlier)
        for (struct cuda_stream *stream = context->streams; stream; stream = stream->next)
            count += stream != context->streams && !stream->ending && !stream->of_thread;
    pthread_mutex_unlock(&standin.lock);
    return count;
}

unsigned standin_events(void)
{
    pthread_mutex_lock(&standin.lock);
    unsigned count = 0;
    for (struct cuda_event *event = standin.events; event; event = event->next)
        count++;
    pthread_mutex_unlock(&standin.lock);
    return count;
}
