/* What the files of the stand-in share. */
#ifndef ACP_STANDIN_INSIDE_H
#define ACP_STANDIN_INSIDE_H

#include "standin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { DEVICES = 16, IMPORTERS = 64, SMALL_PAGE = 4096, GRANULE = 2 << 20 };

struct cuda_context { /* the primary one of a device; it is kept when it is dead, for those that still name it */
    int device;
    unsigned users;
    bool alive;
    cuda_status broken;              /* 0, or what every call returns from now on */
    struct cuda_stream *streams;     /* the legacy one is the first */
    struct cuda_context *earlier;
};

struct stamp { /* one recording of an event */
    bool done;
    unsigned users;
};

struct cuda_event {
    struct cuda_context *context;
    struct stamp *stamp; /* the last recording; NULL: none */
    struct cuda_event *next;
};

struct task {
    enum { TASK_COPY, TASK_RECORD, TASK_WAIT, TASK_CALL } kind;
    uint64_t number; /* in the order of enqueuing, over all streams */
    cuda_address to, from;
    uint64_t to_buffer, from_buffer; /* of the memory when the copy was enqueued; 0: host memory */
    size_t size;
    struct stamp *stamp;
    cuda_host_function function;
    void *data;
    struct task *next;
};

struct cuda_stream {
    struct cuda_context *context;
    bool blocking;             /* waits for the legacy stream, which waits for it */
    bool held, ending, started;
    bool busy;                 /* its worker runs its first task */
    pthread_t owner;           /* of the stream that is one thread's */
    bool of_thread;
    uint64_t random;
    struct task *first, *last; /* the first stays until it has run */
    struct cuda_stream *next;
};

/* The page behind the bytes of a block, which all processes see that have it. */
struct shared {
    uint64_t magic, serial, size;
    int32_t owner, device; /* the process, and the device of the machine */
    _Atomic int32_t freed;
    _Atomic int32_t importers[IMPORTERS]; /* processes that have it open by its name */
};

struct block { /* physical memory: a memory file, mapped where the program does not look for it */
    int fd;
    size_t size;
    unsigned char *bytes;
    struct shared *shared;
    cuda_memory number;
    unsigned handles, users; /* users: mappings and copies that run */
    int device, handle_types;
    bool own;     /* made by this process */
    struct block *next;
};

struct range { /* addresses that the processor cannot reach, or host memory that is registered */
    enum { RANGE_ALLOCATED, RANGE_IMPORTED, RANGE_MAPPED, RANGE_HOST } kind;
    cuda_address start;
    size_t size;
    struct block *block; /* NULL: host memory */
    struct cuda_context *context;
    uint64_t buffer;
    unsigned opens; /* of an import */
    int access;
    struct range *next;
};

struct standin {
    pthread_mutex_t lock; /* of all that is here */
    pthread_cond_t changed;
    _Atomic pid_t process; /* that has called cuInit; 0: none */
    int devices, visible[DEVICES];
    size_t memory;
    unsigned delay, break_at, copies, tasks;
    uint64_t seed, numbers; /* the last number of a task, a buffer or a stream's seed */
    bool no_ipc, no_fd, no_vmm, pool, no_peer, fresh;
    struct cuda_context *contexts; /* dead ones too */
    struct cuda_event *events;
    struct block *blocks;
    struct range *ranges;
};
extern struct standin standin;

/* Prints what the program has done, and aborts. */
_Noreturn void standin_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Begins a call: takes the lock, and says what hinders it, without the lock then. With `context` it needs one. */
cuda_status standin_enter(const char *call, struct cuda_context **context);
cuda_status standin_leave(cuda_status status);
#define ENTER(context)                                                                                                 \
    do {                                                                                                               \
        cuda_status hindered = standin_enter(__func__, context);                                                       \
        if (hindered)                                                                                                  \
            return hindered;                                                                                           \
    } while (0)
#define LEAVE(status) return standin_leave(status)
#define REFUSE_IF(condition, status)                                                                                   \
    do {                                                                                                               \
        if (condition)                                                                                                 \
            return standin_leave(status);                                                                              \
    } while (0)

void *standin_new(size_t size);
bool standin_device_is(int device);
uint64_t standin_random(uint64_t *state);

/* Streams, with the lock. */
struct cuda_stream *stream_new(struct cuda_context *context, bool blocking);
void stream_end_all(struct cuda_context *context);
extern _Thread_local bool stream_in_host_function;

/* Memory, with the lock. */
struct range *memory_find(cuda_address address);
struct range *memory_range_new(int kind, cuda_address start, size_t size, struct block *block);
void memory_range_end(struct range *range);
cuda_address memory_reserve(size_t size, size_t alignment);
void memory_unreserve(cuda_address start, size_t size);
bool memory_reserved(cuda_address start, size_t size, bool whole); /* whether these addresses were reserved */
struct block *memory_block_new(int device, size_t size, int handle_types);
struct block *memory_block_open(int fd); /* NULL: it is none of ours; otherwise the descriptor is the block's now */
void memory_block_leave(struct block *block);
void memory_free(struct range *range);
/* Whether all of it is in memory that may be read, or written; host memory that nobody has named counts. */
cuda_status memory_check(cuda_address address, size_t size, bool write, uint64_t *buffer);
/* Copies, and gives the lock away meanwhile. */
void memory_copy(struct task *task);

#endif
