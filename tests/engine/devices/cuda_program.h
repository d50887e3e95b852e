/* What tests of the CUDA kind have in common: the kind opened beside a program, and short words for its calls. */
#ifndef ACP_CUDA_PROGRAM_H
#define ACP_CUDA_PROGRAM_H

#include "device/scene.h"
#include "devices/cuda.h"

#include <stdatomic.h>

enum { SIZE = 10000 };

static const struct kind *const kind = &cuda_kind;
static const struct kind_place anywhere = {.number = -1};
static void *state;
static struct kind_fault fault;

static inline void begin(void)
{
    unsigned contexts = standin_contexts();
    CHECK(kind->open(&state, &fault) == KIND_OK && standin_contexts() == contexts);
}

static inline bool is_empty(void)
{
    return standin_contexts() == 0 && standin_streams() == 0 && standin_events() == 0 && standin_blocks() == 0 &&
           standin_reserved() == 0 && standin_imports() == 0;
}

/* Nothing is left of the kind, nor of the program. */
static inline void end(void)
{
    kind->close(state);
    CHECK(is_empty());
}

/* The program has a context on a device, and it is current. */
static inline cuda_context program(int device)
{
    cuda_context context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxPushCurrent_v2(context));
    return context;
}

static inline void program_end(int device)
{
    OK(cuCtxPopCurrent_v2(NULL));
    OK(cuDevicePrimaryCtxRelease_v2(device));
}

static inline cuda_address program_memory(size_t size)
{
    cuda_address address;
    OK(cuMemAlloc_v2(&address, size));
    return address;
}

static inline struct kind_block allocated(struct kind_place place, uint64_t size)
{
    struct kind_block block;
    CHECK(kind->allocate(state, place, size, &block, &fault) == KIND_OK && block.size >= size);
    return block;
}

static inline struct kind_block adopted(uint64_t address, uint64_t size)
{
    struct kind_block block;
    CHECK(kind->adopt(state, anywhere, address, size, &block, &fault) == KIND_OK);
    CHECK(block.base + block.offset == address);
    return block;
}

static inline struct kind_end in_block(const struct kind_block *block, uint64_t offset)
{
    return (struct kind_end){.block = block, .offset = offset};
}

static inline struct kind_end in_host(void *at)
{
    return (struct kind_end){.host = at};
}

static inline struct kind_event *started(struct kind_end to, struct kind_end from, uint64_t size, struct kind_event *behind)
{
    const struct kind_copy copy = {to, from, size, behind};
    struct kind_event *event;
    CHECK(kind->copy(state, &copy, &event, &fault) == KIND_OK && event);
    return event;
}

static inline void copied(struct kind_end to, struct kind_end from, uint64_t size)
{
    CHECK(kind->wait(state, started(to, from, size, NULL), &fault) == KIND_OK);
}

static inline void put_byte(const struct kind_block *block, uint64_t offset, unsigned char byte)
{
    copied(in_block(block, offset), in_host(&byte), 1);
}

static inline unsigned char byte_at(const struct kind_block *block, uint64_t offset)
{
    unsigned char byte;
    copied(in_host(&byte), in_block(block, offset), 1);
    return byte;
}

static inline struct kind_event *marked(uint64_t stream)
{
    struct kind_event *event;
    CHECK(kind->mark(state, anywhere, stream, &event, &fault) == KIND_OK);
    return event;
}

static inline bool says(const char *words)
{
    bool right = strstr(fault.words, words) != NULL;
    if (!right)
        fprintf(stderr, "words: %s\n", fault.words);
    return right;
}

static inline void count(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

#endif
