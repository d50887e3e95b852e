/* The CUDA kind with whatever driver is there: what it shares between two processes, and what a copy costs.
 *
 *     gcc -std=c11 -D_GNU_SOURCE -O2 -I acp_mpi/engine tests/device/check_kind.c acp_mpi/engine/devices/cuda*.c \
 *         -o check_kind -ldl -pthread && ./check_kind
 *
 * It prints a row for each step, and ends with 1 if one is wrong. */
#include "devices/cuda.h"
#include "devices/cuda_context.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, SIZE = 64 * MIB };

static const struct kind *const kind = &cuda_kind;
static const struct kind_place first_device = {.number = 0};
static struct kind_fault fault;
static void *state;
static bool wrong;

static void row(const char *what, const char *how)
{
    printf("%-64s %s\n", what, how);
    fflush(stdout);
}

/* A step that must succeed for those after it. */
static void need(const char *step, int rc)
{
    if (rc == KIND_OK)
        return;
    row(step, fault.words);
    exit(rc == KIND_CANNOT ? 0 : 1);
}

static void expect(const char *what, bool right)
{
    row(what, right ? "yes" : "NO");
    wrong |= !right;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct kind_event *start(struct kind_end to, struct kind_end from, uint64_t size, struct kind_event *behind)
{
    const struct kind_copy copy = {to, from, size, behind};
    struct kind_event *event;
    need("a copy", kind->copy(state, &copy, &event, &fault));
    return event;
}

static void copy(struct kind_end to, struct kind_end from, uint64_t size)
{
    struct kind_event *event = start(to, from, size, NULL);
    int rc;
    while ((rc = kind->test(state, event, &fault)) == KIND_BUSY)
        ;
    need("the end of a copy", rc);
}

static void fill(struct kind_end to, int byte)
{
    unsigned char *bytes = malloc(MIB);
    memset(bytes, byte, MIB);
    copy(to, (struct kind_end){.host = bytes}, MIB);
    free(bytes);
}

static bool holds(struct kind_end from, int byte)
{
    unsigned char *bytes = calloc(1, MIB);
    bool right = true;
    copy((struct kind_end){.host = bytes}, from, MIB);
    for (int i = 0; i < MIB; i++)
        right &= bytes[i] == byte;
    free(bytes);
    return right;
}

struct offer {
    struct kind_ticket tickets[2]; /* of memory of the kind, and of the program's */
    bool there[2];
};

static void ring(void *context)
{
    atomic_store((atomic_int *)context, 1);
}

/* Allocates in both ways, offers both, and waits until the other process has had its turn, or kills it. */
static void owner(int line)
{
    struct offer offer = {0};
    struct kind_block blocks[2];
    cuda_address memory;
    int descriptor;
    char done;
    struct cuda *c;
    need("open", kind->open(&state, &fault));
    c = state;
    need("allocate", kind->allocate(state, first_device, SIZE, &blocks[0], &fault));
    need("a context", cuda_context_enter(c, 0, true, &fault));
    need("memory of the program", CUDA_DO(c, &fault, cuMemAlloc_v2, &memory, SIZE));
    cuda_context_leave(c);
    need("adopt", kind->adopt(state, first_device, memory + MIB, MIB, &blocks[1], &fault));
    expect("an array's offset in its block is right", blocks[1].base == memory && blocks[1].offset == MIB);
    for (int i = 0; i < 2; i++) {
        fill((struct kind_end){.block = &blocks[i], .offset = MIB}, 5 + i);
        int rc = kind->publish(state, &blocks[i], &offer.tickets[i], &descriptor, &fault);
        offer.there[i] = rc == KIND_OK;
        offer.tickets[i].descriptor = descriptor;
        row(i ? "memory of the program is exported" : "memory of the kind is exported",
            rc != KIND_OK                               ? fault.words
            : offer.tickets[i].how == KIND_BY_DESCRIPTOR ? "by descriptor"
                                                         : "by name");
    }
    atomic_int rung = 0;
    struct kind_event *mark, *event;
    need("mark", kind->mark(state, first_device, 0, &mark, &fault));
    event = start((struct kind_end){.block = &blocks[0]}, (struct kind_end){.block = &blocks[0], .offset = SIZE / 2},
                  MIB, mark);
    need("notify", kind->notify(state, event, ring, &rung, &fault));
    need("wait", kind->wait(state, event, &fault));
    for (int ms = 0; ms < 1000 && !atomic_load(&rung); ms++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    expect("a bell has rung", atomic_load(&rung));
    if (write(line, &offer, sizeof offer) != sizeof offer || recv(line, &done, 1, 0) != 1)
        exit(1);
    for (int i = 0; i < 2; i++)
        if (offer.there[i])
            expect("bytes of the importer have come",
                   holds((struct kind_end){.block = &blocks[i], .offset = 3 * MIB}, 9));
    for (int i = 0; i < 2; i++)
        kind->release(state, &blocks[i]);
    need("a context", cuda_context_enter(c, 0, true, &fault));
    need("memory of the program goes back", CUDA_DO(c, &fault, cuMemFree_v2, memory));
    cuda_context_leave(c);
    kind->close(state);
    exit(wrong);
}

static void speeds(struct kind_end to, struct kind_end from)
{
    static const uint64_t sizes[] = {8, 4096, 65536, MIB, 16 * MIB, 60 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t best = UINT64_MAX, begin = now_ns();
        char what[64], how[64];
        for (int n = 0; n < 200 && now_ns() - begin < 300000000; n++) {
            uint64_t before = now_ns();
            copy(to, from, sizes[i]);
            uint64_t took = now_ns() - before;
            best = took < best ? took : best;
        }
        snprintf(what, sizeof what, "  own memory into it, %llu bytes", (unsigned long long)sizes[i]);
        snprintf(how, sizeof how, "%.1f us, %.2f GB/s", (double)best / 1e3, (double)sizes[i] / (double)best);
        row(what, how);
    }
}

static int descriptor_of(pid_t process, const struct kind_ticket *ticket)
{
    if (ticket->how != KIND_BY_DESCRIPTOR)
        return -1;
    int pidfd = (int)syscall(SYS_pidfd_open, process, 0);
    return pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, ticket->descriptor, 0);
}

int main(void)
{
    struct offer offer;
    struct kind_block own, block;
    int lines[2], status;
    alarm(120);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, lines))
        return 1;
    pid_t process = fork();
    if (!process) {
        alarm(120);
        owner(lines[1]);
    }
    close(lines[1]);
    if (recv(lines[0], &offer, sizeof offer, MSG_WAITALL) != sizeof offer) { /* it has said why */
        waitpid(process, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    need("open", kind->open(&state, &fault));
    expect("without a context nothing is imported",
           kind->import(state, &offer.tickets[1], -1, &block, &fault) == KIND_CANNOT);
    need("allocate", kind->allocate(state, first_device, SIZE, &own, &fault));
    for (int i = 0; i < 2; i++) {
        int fd = descriptor_of(process, &offer.tickets[i]);
        int rc = offer.there[i] ? kind->import(state, &offer.tickets[i], fd, &block, &fault) : KIND_CANNOT;
        row(i ? "memory of the program is imported" : "memory of the kind is imported",
            rc == KIND_OK ? "yes" : offer.there[i] ? fault.words : "it was not exported");
        if (fd >= 0)
            close(fd);
        if (rc != KIND_OK)
            continue;
        expect("  its bytes are right", holds((struct kind_end){.block = &block, .offset = MIB}, 5 + i));
        speeds((struct kind_end){.block = &block, .offset = 4 * MIB}, (struct kind_end){.block = &own});
        fill((struct kind_end){.block = &block, .offset = 3 * MIB}, 9);
        kind->release(state, &block);
    }
    kind->release(state, &own);
    kind->close(state);
    if (write(lines[0], "", 1) != 1)
        return 1;
    waitpid(process, &status, 0);
    return wrong || !WIFEXITED(status) || WEXITSTATUS(status);
}
