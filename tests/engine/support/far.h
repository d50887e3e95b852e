/* Far memory: a kind of device memory without a device. Its addresses are mapped without access, so that whatever
 * loads or stores there ends; its copies are made by a thread that is late on purpose; a copy out of bounds, or in a
 * block that has ended, a block that is freed while others have it imported, and an event or a block that is left over
 * end the process, too. Two devices, between which nothing is copied. */
#ifndef ACP_TESTS_FAR_H
#define ACP_TESTS_FAR_H

#include "devices/kind.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef FAR_API
#define FAR_API static inline
#endif

#define FAR_NUMBER 12 /* DLPack's for memory of extensions */
#define FAR_GRANULE ((uint64_t)65536)
#define FAR_STREAMS 4u
#define FAR_DEVICES 2

#define FAR_MUST(condition)                                                                                         \
    do {                                                                                                            \
        if (!(condition)) {                                                                                         \
            fprintf(stderr, "far memory, %s:%d: broken: %s\n", __FILE__, __LINE__, #condition);                     \
            abort();                                                                                                \
        }                                                                                                           \
    } while (0)

/* At the end of the file, for all processes. */
struct far_tail {
    _Atomic int32_t imports;
};

struct far_memory {
    struct far_memory *next;
    unsigned char *base; /* no access */
    uint64_t size;
    struct far_tail *tail;
    int fd, device;
    bool imported, programs; /* by far_malloc */
    _Atomic int32_t copies;  /* under way */
    int32_t adopted;
};

struct kind_event {
    struct kind_event *next;
    uint64_t at; /* not before that time, ns */
    struct kind_event *after, *second; /* kept until then */
    int32_t holds;
    bool done, ended;
    struct far_memory *to, *from;
    uint64_t to_offset, from_offset, size;
    unsigned char *host;
    bool fill;
    unsigned char value;
    void (*ring)(void *);
    void *context;
    int failure;
};

/* Of the process: what the driver has of it, and what the test sets. */
static struct far_world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct far_memory *memory;
    struct kind_event *queue; /* in the order in which they began */
    struct kind_event *streams[FAR_DEVICES][FAR_STREAMS];
    pthread_t thread;
    int32_t opened, events, blocks;
    bool runs, stops;
    bool inactive[FAR_DEVICES], unexportable, no_notify, absent;
    uint64_t late_ns;
    uint64_t copies, imports, marks, refuse_size;
    int fail_next;
} far = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .late_ns = 100000};

static inline uint64_t far_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int far_say(struct kind_fault *fault, int rc, int number, const char *words)
{
    *fault = (struct kind_fault){.number = number};
    snprintf(fault->words, sizeof fault->words, "%s", words);
    return rc;
}

static inline void far_uuid(int device, uint8_t out[16])
{
    memset(out, 0, 16);
    memcpy(out, "far memory", 10);
    out[15] = (uint8_t)(device + 1);
}

static inline void far_drop(struct kind_event *x)
{
    if (x && --x->holds == 0)
        free(x);
}

static inline struct kind_event *far_hold(struct kind_event *x)
{
    if (x)
        x->holds++;
    return x;
}

static inline void far_do(struct kind_event *x)
{
    uint64_t done = 0;
    unsigned char *bytes = x->host ? x->host : malloc(x->size + 1);
    if (x->fill)
        memset(bytes, x->value, x->size);
    while (x->from && done < x->size) {
        ssize_t n = pread(x->from->fd, bytes + done, x->size - done, (off_t)(x->from_offset + done));
        FAR_MUST(n > 0);
        done += (uint64_t)n;
    }
    for (done = 0; x->to && done < x->size;) {
        ssize_t n = pwrite(x->to->fd, bytes + done, x->size - done, (off_t)(x->to_offset + done));
        FAR_MUST(n > 0);
        done += (uint64_t)n;
    }
    if (bytes != x->host)
        free(bytes);
}

static void *far_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&far.lock);
    while (!far.stops || far.queue) {
        struct kind_event **at = &far.queue, *x = NULL;
        uint64_t now = far_now(), soonest = now + 1000000000u;
        for (; *at; at = &(*at)->next) {
            x = *at;
            if ((x->after && !x->after->done) || (x->second && !x->second->done))
                continue;
            if (x->at <= now)
                break;
            soonest = x->at < soonest ? x->at : soonest;
        }
        if (!*at) {
            struct timespec until, real;
            clock_gettime(CLOCK_REALTIME, &real);
            uint64_t ns = (uint64_t)real.tv_nsec + (soonest - now);
            until.tv_sec = real.tv_sec + (time_t)(ns / 1000000000u);
            until.tv_nsec = (long)(ns % 1000000000u);
            pthread_cond_timedwait(&far.changed, &far.lock, &until);
            continue;
        }
        x = *at;
        *at = x->next;
        pthread_mutex_unlock(&far.lock);
        if (x->size && !x->failure)
            far_do(x);
        pthread_mutex_lock(&far.lock);
        if (x->to)
            x->to->copies--;
        if (x->from)
            x->from->copies--;
        x->done = true;
        void (*ring)(void *) = x->ring;
        x->ring = NULL;
        if (ring) /* with the lock: `close` waits for it so */
            ring(x->context);
        far_drop(x->after);
        far_drop(x->second);
        x->after = x->second = NULL;
        far_drop(x);
        pthread_cond_broadcast(&far.changed);
    }
    pthread_mutex_unlock(&far.lock);
    return NULL;
}

static inline void far_begin(void) /* with the lock */
{
    if (!far.runs)
        FAR_MUST(pthread_create(&far.thread, NULL, far_main, NULL) == 0);
    far.runs = true;
}

/* With the lock; held twice: by the queue, and by its user. */
static inline struct kind_event *far_event(struct kind_event *after)
{
    struct kind_event *x = calloc(1, sizeof *x), **at = &far.queue;
    FAR_MUST(x);
    far_begin();
    x->holds = 2;
    x->after = far_hold(after);
    x->at = far_now() + far.late_ns;
    while (*at)
        at = &(*at)->next;
    *at = x;
    pthread_cond_broadcast(&far.changed);
    return x;
}

static inline struct far_memory *far_find(uint64_t base)
{
    struct far_memory *m = far.memory;
    while (m && (base < (uint64_t)(uintptr_t)m->base || base >= (uint64_t)(uintptr_t)m->base + m->size))
        m = m->next;
    return m;
}

static inline struct far_memory *far_at(const void *address)
{
    pthread_mutex_lock(&far.lock);
    struct far_memory *m = far_find((uint64_t)(uintptr_t)address);
    pthread_mutex_unlock(&far.lock);
    FAR_MUST(m);
    return m;
}

static inline struct far_memory *far_map(int fd, uint64_t size, int device)
{
    struct far_memory *m = calloc(1, sizeof *m);
    void *base = mmap(NULL, size, PROT_NONE, MAP_SHARED, fd, 0);
    void *tail = mmap(NULL, FAR_GRANULE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)size);
    FAR_MUST(m && base != MAP_FAILED && tail != MAP_FAILED);
    *m = (struct far_memory){.base = base, .size = size, .tail = tail, .fd = fd, .device = device};
    pthread_mutex_lock(&far.lock);
    m->next = far.memory;
    far.memory = m;
    pthread_mutex_unlock(&far.lock);
    return m;
}

static inline struct far_memory *far_new(int device, uint64_t size)
{
    uint64_t whole = (size + FAR_GRANULE - 1) & ~(FAR_GRANULE - 1);
    int fd = memfd_create("far", MFD_CLOEXEC);
    FAR_MUST(fd >= 0 && ftruncate(fd, (off_t)(whole + FAR_GRANULE)) == 0);
    return far_map(fd, whole, device);
}

static inline void far_end(struct far_memory *m)
{
    pthread_mutex_lock(&far.lock);
    struct far_memory **at = &far.memory;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    FAR_MUST(m->copies == 0);
    pthread_mutex_unlock(&far.lock);
    if (m->imported)
        m->tail->imports--;
    else
        FAR_MUST(m->tail->imports == 0); /* freed before its importers have let go of it */
    munmap(m->base, m->size);
    munmap(m->tail, FAR_GRANULE);
    close(m->fd);
    free(m);
}

/* What the program does. */

FAR_API void *far_malloc(int device, uint64_t size)
{
    struct far_memory *m = far_new(device, size);
    m->programs = true;
    return m->base;
}

FAR_API void far_free(void *base)
{
    struct far_memory *m = far_at(base);
    FAR_MUST(m->base == base && m->programs && !m->adopted);
    far_end(m);
}

FAR_API void far_peek(const void *address, void *out, uint64_t size)
{
    struct far_memory *m = far_at(address);
    FAR_MUST(pread(m->fd, out, size, (const unsigned char *)address - m->base) == (ssize_t)size);
}

FAR_API void far_poke(void *address, const void *bytes, uint64_t size)
{
    struct far_memory *m = far_at(address);
    FAR_MUST(pwrite(m->fd, bytes, size, (unsigned char *)address - m->base) == (ssize_t)size);
}

/* Enqueued by the program: a kernel that fills memory, late. */
FAR_API void far_fill(int device, unsigned stream, void *address, int value, uint64_t size, uint64_t late_ns)
{
    struct far_memory *m = far_at(address);
    FAR_MUST(stream < FAR_STREAMS);
    pthread_mutex_lock(&far.lock);
    struct kind_event **tail = &far.streams[device][stream], *x = far_event(*tail);
    x->at = far_now() + late_ns;
    x->fill = true;
    x->value = (unsigned char)value;
    x->to = m;
    x->to_offset = (uint64_t)((unsigned char *)address - m->base);
    x->size = size;
    m->copies++;
    far_drop(*tail);
    *tail = x;
    pthread_mutex_unlock(&far.lock);
}

/* Waits for a stream; nothing that is in a queue is late any more. */
FAR_API void far_synchronize(int device, unsigned stream)
{
    pthread_mutex_lock(&far.lock);
    for (struct kind_event *x = far.queue; x; x = x->next)
        x->at = 0;
    pthread_cond_broadcast(&far.changed);
    while (far.streams[device][stream] && !far.streams[device][stream]->done)
        pthread_cond_wait(&far.changed, &far.lock);
    pthread_mutex_unlock(&far.lock);
}

FAR_API void far_set(int device, int active, int exportable, int notifies, uint64_t late_ns)
{
    pthread_mutex_lock(&far.lock);
    far.inactive[device] = !active;
    far.unexportable = !exportable;
    far.no_notify = !notifies;
    far.late_ns = late_ns;
    pthread_mutex_unlock(&far.lock);
}

static inline uint64_t far_read(const uint64_t *count)
{
    pthread_mutex_lock(&far.lock);
    uint64_t value = *count;
    pthread_mutex_unlock(&far.lock);
    return value;
}

FAR_API uint64_t far_copies(void)
{
    return far_read(&far.copies);
}

FAR_API uint64_t far_imports(void)
{
    return far_read(&far.imports);
}

FAR_API uint64_t far_marks(void)
{
    return far_read(&far.marks);
}

/* The kind. */

static inline int far_open(void **state, struct kind_fault *fault)
{
    *state = &far;
    if (far.absent)
        return far_say(fault, KIND_CANNOT, 0, "far memory is switched off");
    pthread_mutex_lock(&far.lock);
    far.opened++;
    pthread_mutex_unlock(&far.lock);
    return KIND_OK;
}

static inline void far_close(void *state)
{
    FAR_MUST(state == &far);
    pthread_mutex_lock(&far.lock);
    if (--far.opened == 0) {
        FAR_MUST(far.events == 0 && far.blocks == 0);
        for (int d = 0; d < FAR_DEVICES; d++)
            for (unsigned s = 0; s < FAR_STREAMS; s++) {
                far_drop(far.streams[d][s]);
                far.streams[d][s] = NULL;
            }
        far.stops = true;
        pthread_cond_broadcast(&far.changed);
        bool runs = far.runs;
        pthread_mutex_unlock(&far.lock);
        if (runs)
            pthread_join(far.thread, NULL);
        pthread_mutex_lock(&far.lock);
        far.runs = far.stops = false;
    }
    pthread_mutex_unlock(&far.lock);
}

static inline int far_list(void *state, uint32_t index, struct kind_device *device, struct kind_fault *fault)
{
    (void)state;
    if (index >= FAR_DEVICES)
        return far_say(fault, KIND_CANNOT, 0, "no such device");
    *device = (struct kind_device){.number = (int32_t)index, .active = !far.inactive[index],
                                   .free = 1 << 20, .size = 2 << 20};
    far_uuid((int)index, device->device);
    snprintf(device->name, sizeof device->name, "far device %u", index);
    return KIND_OK;
}

static inline bool far_active(void *state, const uint8_t device[16])
{
    (void)state;
    pthread_mutex_lock(&far.lock);
    bool active = device[15] >= 1 && device[15] <= FAR_DEVICES && !far.inactive[device[15] - 1];
    pthread_mutex_unlock(&far.lock);
    return active;
}

static inline void far_block(const struct far_memory *m, struct kind_block *block)
{
    *block = (struct kind_block){.base = (uint64_t)(uintptr_t)m->base, .size = m->size, .place = {.number = m->device}};
    far_uuid(m->device, block->device);
    pthread_mutex_lock(&far.lock);
    far.blocks++;
    pthread_mutex_unlock(&far.lock);
}

static inline int far_allocate(void *state, struct kind_place place, uint64_t size, struct kind_block *block,
                               struct kind_fault *fault)
{
    (void)state;
    int device = place.number < 0 ? 0 : place.number;
    if (device >= FAR_DEVICES)
        return far_say(fault, KIND_FAILED, 101, "FAR_ERROR_INVALID_DEVICE");
    if (size > 256u << 20) {
        far_say(fault, KIND_FULL, 2, "FAR_ERROR_OUT_OF_MEMORY");
        fault->free = 1 << 20;
        return KIND_FULL;
    }
    struct far_memory *m = far_new(device, size);
    block->own = NULL;
    far_block(m, block);
    return KIND_OK;
}

static inline int far_adopt(void *state, struct kind_place place, uint64_t address, uint64_t size,
                            struct kind_block *block, struct kind_fault *fault)
{
    (void)state;
    (void)place;
    pthread_mutex_lock(&far.lock);
    struct far_memory *m = far_find(address);
    bool inside = m && m->programs && size <= m->size - (address - (uint64_t)(uintptr_t)m->base);
    if (inside)
        m->adopted++;
    pthread_mutex_unlock(&far.lock);
    if (!inside)
        return far_say(fault, KIND_CANNOT, 1, "not far memory");
    far_block(m, block);
    block->offset = address - (uint64_t)(uintptr_t)m->base;
    block->own = m;
    return KIND_OK;
}

static inline void far_release(void *state, struct kind_block *block)
{
    (void)state;
    pthread_mutex_lock(&far.lock);
    struct far_memory *m = far_find(block->base);
    far.blocks--;
    FAR_MUST(m && block->base == (uint64_t)(uintptr_t)m->base);
    if (m->programs) {
        FAR_MUST(m->adopted > 0);
        m->adopted--;
    }
    pthread_mutex_unlock(&far.lock);
    if (!m->programs)
        far_end(m);
}

static inline int far_publish(void *state, const struct kind_block *block, struct kind_ticket *ticket, int *descriptor,
                              struct kind_fault *fault)
{
    (void)state;
    const struct far_memory *m = far_at((void *)(uintptr_t)block->base);
    FAR_MUST(!m->imported);
    if (far.unexportable)
        return far_say(fault, KIND_CANNOT, 0, "this memory cannot be exported");
    *ticket = (struct kind_ticket){.kind = FAR_NUMBER, .how = KIND_BY_DESCRIPTOR, .granule = 16, .size = m->size};
    far_uuid(m->device, ticket->device);
    *descriptor = dup(m->fd);
    return KIND_OK;
}

static inline int far_import(void *state, const struct kind_ticket *ticket, int descriptor, struct kind_block *block,
                             struct kind_fault *fault)
{
    (void)state;
    struct stat st;
    if (fstat(descriptor, &st) || (uint64_t)st.st_size != ticket->size + FAR_GRANULE || !far_active(state, ticket->device))
        return far_say(fault, KIND_FAILED, 3, "FAR_ERROR_INVALID_HANDLE");
    struct far_memory *m = far_map(dup(descriptor), ticket->size, ticket->device[15] - 1);
    m->imported = true;
    m->tail->imports++;
    far_block(m, block);
    pthread_mutex_lock(&far.lock);
    far.imports++;
    pthread_mutex_unlock(&far.lock);
    return KIND_OK;
}

static inline int far_copy(void *state, const struct kind_copy *c, struct kind_event **event, struct kind_fault *fault)
{
    (void)state;
    struct far_memory *to = NULL, *from = NULL;
    int rc = KIND_OK;
    pthread_mutex_lock(&far.lock);
    if (c->to.block)
        FAR_MUST((to = far_find(c->to.block->base)) && c->to.offset + c->size <= to->size);
    if (c->from.block)
        FAR_MUST((from = far_find(c->from.block->base)) && c->from.offset + c->size <= from->size);
    FAR_MUST((to || from) && c->size && (to || c->to.host) && (from || c->from.host));
    FAR_MUST(to != from || c->to.offset + c->size <= c->from.offset || c->from.offset + c->size <= c->to.offset);
    if (to && from && to->device != from->device)
        rc = far_say(fault, KIND_CANNOT, 0, "no path between these devices");
    else if (far.fail_next && far.fail_next--)
        rc = far_say(fault, KIND_FAILED, 700, "FAR_ERROR_ILLEGAL_ADDRESS");
    if (rc == KIND_OK) {
        struct kind_event *x = *event = far_event(c->behind);
        x->to = to;
        x->to_offset = c->to.offset;
        x->from = from;
        x->from_offset = c->from.offset;
        x->host = to && from ? NULL : to ? c->from.host : c->to.host;
        x->size = c->size;
        if (to)
            to->copies++;
        if (from)
            from->copies++;
        far.events++;
        far.copies++;
    }
    if (c->behind && rc != KIND_CANNOT) {
        far.events--;
        far_drop(c->behind);
    }
    pthread_mutex_unlock(&far.lock);
    return rc;
}

static inline int far_result(struct kind_event *x, struct kind_fault *fault) /* with the lock */
{
    int rc = x->failure ? far_say(fault, KIND_FAILED, x->failure, "FAR_ERROR_LAUNCH_FAILED") : KIND_OK;
    far.events--;
    far_drop(x);
    return rc;
}

static inline int far_test(void *state, struct kind_event *x, struct kind_fault *fault)
{
    (void)state;
    pthread_mutex_lock(&far.lock);
    int rc = x->done ? far_result(x, fault) : KIND_BUSY;
    pthread_mutex_unlock(&far.lock);
    return rc;
}

static inline int far_wait(void *state, struct kind_event *x, struct kind_fault *fault)
{
    (void)state;
    pthread_mutex_lock(&far.lock);
    while (!x->done)
        pthread_cond_wait(&far.changed, &far.lock);
    int rc = far_result(x, fault);
    pthread_mutex_unlock(&far.lock);
    return rc;
}

static inline int far_mark(void *state, struct kind_place place, uint64_t stream, struct kind_event **event,
                           struct kind_fault *fault)
{
    (void)state;
    int device = place.number < 0 ? 0 : place.number;
    if (stream >= FAR_STREAMS)
        return far_say(fault, KIND_FAILED, 400, "FAR_ERROR_INVALID_STREAM");
    pthread_mutex_lock(&far.lock);
    struct kind_event *x = *event = far_event(far.streams[device][stream]);
    x->at = 0;
    far.marks++;
    for (unsigned s = 1; stream == 0 && s < FAR_STREAMS; s++) { /* the default stream stands behind all */
        struct kind_event *before = x->second;
        if (!far.streams[device][s] || far.streams[device][s]->done)
            continue;
        x->second = far_event(far.streams[device][s]);
        x->second->second = before;
        x->second->at = 0;
    }
    far.events++;
    pthread_mutex_unlock(&far.lock);
    return KIND_OK;
}

static inline int far_follow(void *state, struct kind_event *x, struct kind_place place, uint64_t stream,
                             struct kind_fault *fault)
{
    (void)state;
    int device = place.number < 0 ? 0 : place.number;
    if (stream >= FAR_STREAMS)
        return far_say(fault, KIND_FAILED, 400, "FAR_ERROR_INVALID_STREAM");
    pthread_mutex_lock(&far.lock);
    struct kind_event **tail = &far.streams[device][stream], *next = far_event(*tail);
    next->second = far_hold(x);
    next->at = 0;
    far_drop(*tail);
    *tail = next;
    pthread_mutex_unlock(&far.lock);
    return KIND_OK;
}

static inline int far_notify(void *state, struct kind_event *x, void (*ring)(void *), void *context,
                             struct kind_fault *fault)
{
    (void)state;
    if (far.no_notify)
        return far_say(fault, KIND_CANNOT, 0, "no callbacks here");
    pthread_mutex_lock(&far.lock);
    FAR_MUST(!x->ring);
    if (x->done) {
        ring(context);
    } else {
        x->ring = ring;
        x->context = context;
    }
    pthread_mutex_unlock(&far.lock);
    return KIND_OK;
}

FAR_API const struct kind *far_kind(void)
{
    static const struct kind kind = {
        .name = "ext", .number = FAR_NUMBER, .open = far_open, .close = far_close, .list = far_list,
        .active = far_active, .allocate = far_allocate, .adopt = far_adopt, .release = far_release,
        .publish = far_publish, .import = far_import, .copy = far_copy, .test = far_test, .wait = far_wait,
        .mark = far_mark, .follow = far_follow, .notify = far_notify,
    };
    return &kind;
}

#endif
