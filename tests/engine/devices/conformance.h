/* What every kind of device memory must do (devices/kind.h). */
#ifndef ACP_TESTS_CONFORMANCE_H
#define ACP_TESTS_CONFORMANCE_H

#include "devices/kind.h"
#include "support/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kind, and what a program does by its driver's own calls. */
struct subject {
    const struct kind *kind;
    struct kind_place place; /* where new memory is */
    void *(*allocate)(uint64_t size); /* there, too */
    void (*free)(void *memory);
    void (*poke)(void *memory, const void *bytes, uint64_t size);
    void (*peek)(const void *memory, void *bytes, uint64_t size);
    bool imports_own; /* a process may import a block of its own */
};

#define SUBJECT_OK(call)                                                                   \
    do {                                                                                   \
        int rc_ = (call);                                                                  \
        if (rc_ != KIND_OK)                                                                \
            fprintf(stderr, "%s: %d, driver's error %d: %s\n", #call, rc_, fault.number, fault.words); \
        CHECK(rc_ == KIND_OK);                                                             \
    } while (0)

static inline struct kind_end conformance_end(const struct kind_block *block, uint64_t offset, void *host)
{
    return (struct kind_end){.block = block, .offset = offset, .host = host};
}

static inline void conformance_copy(const struct kind *k, void *state, struct kind_end to, struct kind_end from,
                                    uint64_t size, struct kind_event *behind)
{
    struct kind_fault fault;
    struct kind_event *event;
    struct kind_copy copy = {.to = to, .from = from, .size = size, .behind = behind};
    SUBJECT_OK(k->copy(state, &copy, &event, &fault));
    if (event)
        SUBJECT_OK(k->wait(state, event, &fault));
}

static inline void conformance_bytes(unsigned char *bytes, uint64_t size, unsigned salt)
{
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(salt + i * 7 + i / 251);
}

/* All four directions, with odd offsets, in new memory and in the program's. */
static inline void conformance_copies(const struct subject *s, void *state)
{
    const struct kind *k = s->kind;
    struct kind_fault fault;
    struct kind_block made, taken;
    uint64_t size = 300001;
    unsigned char *bytes = malloc(size), *back = malloc(size), *programs = s->allocate(2 * size);
    SUBJECT_OK(k->allocate(state, s->place, size, &made, &fault));
    CHECK(made.size >= size && made.base && made.offset == 0);
    SUBJECT_OK(k->adopt(state, s->place, (uint64_t)(uintptr_t)programs + (k->handles ? 0 : 13),
                        size, &taken, &fault));
    taken.offset += k->handles ? 13 : 0;
    CHECK(taken.offset >= 13 && taken.size - taken.offset >= size);
    CHECK(taken.base + taken.offset == (uint64_t)(uintptr_t)programs + 13);
    conformance_bytes(bytes, size, 3);
    conformance_copy(k, state, conformance_end(&made, 0, NULL), conformance_end(NULL, 0, bytes), size, NULL);
    conformance_copy(k, state, conformance_end(&taken, taken.offset, NULL), conformance_end(&made, 0, NULL), size, NULL);
    s->peek(programs + 13, back, size);
    CHECK(memcmp(bytes, back, size) == 0);
    memset(back, 0, size);
    conformance_copy(k, state, conformance_end(NULL, 0, back), conformance_end(&taken, taken.offset + 5, NULL), 77, NULL);
    CHECK(memcmp(bytes + 5, back, 77) == 0 && back[77] == 0);
    memset(back, 0, size);
    conformance_copy(k, state, conformance_end(&made, 1, NULL), conformance_end(NULL, 0, bytes), 1, NULL);
    conformance_copy(k, state, conformance_end(NULL, 0, back), conformance_end(&made, 0, NULL), 3, NULL);
    CHECK(back[0] == bytes[0] && back[1] == bytes[0] && back[2] == bytes[2]);
    k->release(state, &taken);
    k->release(state, &made);
    s->poke(programs, bytes, size); /* it was the program's all the time */
    s->free(programs);
    free(bytes);
    free(back);
}

/* What is not memory of the kind, and a device that is not there. */
static inline void conformance_refusals(const struct subject *s, void *state)
{
    const struct kind *k = s->kind;
    struct kind_fault fault = {.number = -1};
    struct kind_block block;
    struct kind_device device;
    int host = 0;
    CHECK(k->handles || k->adopt(state, s->place, (uint64_t)(uintptr_t)&host, sizeof host,
                                 &block, &fault) == KIND_CANNOT);
    CHECK(k->handles || (fault.words[0] && strlen(fault.words) < sizeof fault.words));
    int rc = k->allocate(state, (struct kind_place){.number = 4711}, 4096, &block, &fault);
    CHECK((rc == KIND_FAILED || rc == KIND_CANNOT) && fault.words[0]);
    uint32_t count = 0;
    while (k->list(state, count, &device, &fault) == KIND_OK) {
        CHECK(device.name[0] && strlen(device.name) < sizeof device.name);
        count++;
    }
    CHECK(count >= 1);
}

static inline void conformance_ring(void *context)
{
    atomic_fetch_add((_Atomic int *)context, 1);
}

/* Events: asked, waited for, rung for; in order behind marks and followed by streams. */
static inline void conformance_events(const struct subject *s, void *state)
{
    const struct kind *k = s->kind;
    struct kind_fault fault;
    struct kind_block block;
    struct kind_event *event, *mark;
    unsigned char one[64] = {1}, back[64];
    _Atomic int rings = 0;
    int rc;
    SUBJECT_OK(k->allocate(state, s->place, sizeof one, &block, &fault));
    for (int i = 0; i < 20; i++) {
        one[0] = (unsigned char)i;
        struct kind_copy copy = {.to = conformance_end(&block, 0, NULL), .from = conformance_end(NULL, 0, one), .size = 64};
        SUBJECT_OK(k->mark(state, block.place, 0, &copy.behind, &fault));
        SUBJECT_OK(k->copy(state, &copy, &event, &fault));
        rc = event ? k->notify(state, event, conformance_ring, &rings, &fault) : KIND_OK;
        CHECK(rc == KIND_OK || rc == KIND_CANNOT);
        if (event)
            SUBJECT_OK(k->follow(state, event, block.place, 0, &fault));
        SUBJECT_OK(k->mark(state, block.place, 0, &mark, &fault));
        while (event && (rc = k->test(state, event, &fault)) == KIND_BUSY)
            sched_yield();
        CHECK(!event || rc == KIND_OK);
        conformance_copy(k, state, conformance_end(NULL, 0, back), conformance_end(&block, 0, NULL), 64, mark);
        CHECK(back[0] == i);
    }
    SUBJECT_OK(k->mark(state, block.place, 0, &mark, &fault)); /* an event that no copy takes */
    if (mark)
        SUBJECT_OK(k->wait(state, mark, &fault));
    k->release(state, &block);
}

/* Blocks in other hands: the bytes are the same, and each end is released once. */
static inline void conformance_exports(const struct subject *s, void *state)
{
    const struct kind *k = s->kind;
    struct kind_fault fault;
    struct kind_block block, imported;
    struct kind_ticket ticket;
    int descriptor = -1;
    unsigned char bytes[512], back[512];
    SUBJECT_OK(k->allocate(state, s->place, sizeof bytes, &block, &fault));
    conformance_bytes(bytes, sizeof bytes, 9);
    conformance_copy(k, state, conformance_end(&block, 0, NULL), conformance_end(NULL, 0, bytes), 512, NULL);
    if (k->publish(state, &block, &ticket, &descriptor, &fault) == KIND_OK) {
        CHECK(ticket.kind == k->number && ticket.size == block.size && ticket.how != KIND_BY_NOTHING);
        CHECK((ticket.how == KIND_BY_DESCRIPTOR) == (descriptor >= 0));
        CHECK(memcmp(ticket.device, block.device, 16) == 0 && k->active(state, ticket.device));
        if (s->imports_own) {
            SUBJECT_OK(k->import(state, &ticket, descriptor, &imported, &fault));
            CHECK(imported.size == block.size);
            conformance_copy(k, state, conformance_end(NULL, 0, back), conformance_end(&imported, 0, NULL), 512, NULL);
            CHECK(memcmp(bytes, back, 512) == 0);
            k->release(state, &imported);
        }
        struct kind_ticket wrong = ticket;
        memset(wrong.device, 0xee, sizeof wrong.device);
        CHECK(!k->active(state, wrong.device));
        wrong = ticket;
        wrong.size += 1 << 21;
        int rc = k->import(state, &wrong, descriptor, &imported, &fault);
        CHECK(rc == KIND_CANNOT || rc == KIND_FAILED);
    } else {
        CHECK(fault.words[0]);
    }
    if (descriptor >= 0)
        close(descriptor);
    k->release(state, &block);
}

struct conformance_thread {
    const struct subject *subject;
    void *state;
    const struct kind_block *block;
    unsigned salt;
};

static void *conformance_many(void *argument)
{
    const struct conformance_thread *t = argument;
    unsigned char bytes[4096], back[4096];
    for (unsigned i = 0; i < 30; i++) {
        conformance_bytes(bytes, sizeof bytes, t->salt + i);
        conformance_copy(t->subject->kind, t->state, conformance_end(t->block, 4096 * t->salt, NULL),
                         conformance_end(NULL, 0, bytes), 4096, NULL);
        conformance_copy(t->subject->kind, t->state, conformance_end(NULL, 0, back),
                         conformance_end(t->block, 4096 * t->salt, NULL), 4096, NULL);
        CHECK(memcmp(bytes, back, 4096) == 0);
    }
    return NULL;
}

static inline void conformance_threads(const struct subject *s, void *state)
{
    struct kind_fault fault;
    struct kind_block block;
    pthread_t threads[4];
    struct conformance_thread arguments[4];
    SUBJECT_OK(s->kind->allocate(state, s->place, 4 * 4096, &block, &fault));
    for (unsigned i = 0; i < 4; i++) {
        arguments[i] = (struct conformance_thread){s, state, &block, i};
        CHECK(pthread_create(&threads[i], NULL, conformance_many, &arguments[i]) == 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    s->kind->release(state, &block);
}

static inline void conformance(const struct subject *s)
{
    struct kind_fault fault;
    void *state = NULL;
    CHECK(s->kind->name[0] && s->kind->number > 0);
    SUBJECT_OK(s->kind->open(&state, &fault));
    conformance_copies(s, state);
    conformance_refusals(s, state);
    conformance_events(s, state);
    conformance_exports(s, state);
    conformance_threads(s, state);
    s->kind->close(state);
}

#endif
