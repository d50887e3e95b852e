/* Questions of the probe about what waits, what it costs, and when bytes become visible to kernels. */
#include "probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 200 };

/* Time ----------------------------------------------------------------------------------------------------------- */

static atomic_int gate, returned;

static void wait_at_gate(void *data)
{
    (void)data;
    while (!atomic_load(&gate))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

struct blocked {
    cuda_context context;
    cuda_address to, from;
    cuda_stream stream;
};

static void *copy_behind_gate(void *data)
{
    struct blocked *b = data;
    call.cuCtxPushCurrent_v2(b->context);
    call.cuMemcpyAsync(b->to, b->from, 4 * MIB, b->stream);
    atomic_store(&returned, 1);
    return NULL;
}

/* Whether cuMemcpyAsync returns while its stream is held up: it may not, with memory that is not pinned. */
static void returns_at_once(const char *what, cuda_context context, cuda_address to, cuda_address from)
{
    struct blocked b = {context, to, from, NULL};
    pthread_t thread;
    NEED(cuStreamCreateWithPriority, &b.stream, CUDA_STREAM_NON_BLOCKING, 0);
    atomic_store(&gate, 0);
    atomic_store(&returned, 0);
    NEED(cuLaunchHostFunc, b.stream, wait_at_gate, NULL);
    if (pthread_create(&thread, NULL, copy_behind_gate, &b))
        return;
    for (int ms = 0; ms < 500 && !atomic_load(&returned); ms++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    row(what, "%s", atomic_load(&returned) ? "yes" : "no");
    atomic_store(&gate, 1);
    pthread_join(thread, NULL);
    finish(b.stream);
}

void blocking(void)
{
    cuda_context context = begin();
    cuda_address device, other;
    char *pinned = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *pageable = malloc(4 * MIB);
    int file = memfd_create("probe", MFD_CLOEXEC);
    NEED(cuMemAlloc_v2, &device, 4 * MIB);
    NEED(cuMemAlloc_v2, &other, 4 * MIB);
    if (pinned == MAP_FAILED || !pageable || file < 0 || ftruncate(file, 4 * MIB))
        return;
    char *shared = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(pinned, 1, 4 * MIB);
    memset(pageable, 1, 4 * MIB);
    row("cuMemHostRegister of private memory", "%s",
        words(call.cuMemHostRegister_v2(pinned, 4 * MIB, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED)));
    row("cuMemHostRegister of a shared memory file", "%s",
        words(call.cuMemHostRegister_v2(shared, 4 * MIB, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED)));
    cuda_address address = 0;
    call.cuMemHostGetDevicePointer_v2(&address, shared, 0);
    row("  its device address is its address", "%s", address == (uintptr_t)shared ? "yes" : "no");
    returns_at_once("cuMemcpyAsync returns at once, device to device", context, other, device);
    returns_at_once("  device to pinned", context, (uintptr_t)pinned, device);
    returns_at_once("  pinned to device", context, device, (uintptr_t)pinned);
    returns_at_once("  device to pageable", context, (uintptr_t)pageable, device);
    returns_at_once("  pageable to device", context, device, (uintptr_t)pageable);
}

static void ring(void *data)
{
    atomic_store((atomic_int *)data, 1);
}

static void call_driver(void *data)
{
    *(cuda_status *)data = call.cuInit(0);
}

void times(void)
{
    cuda_context context = begin(), popped;
    cuda_address device, other;
    unsigned flags;
    int active;
    atomic_int rang = 0;
    size_t size = 64 * MIB;
    char *host = malloc(size);
    NEED(cuMemAlloc_v2, &device, size);
    NEED(cuMemAlloc_v2, &other, size);
    if (!host)
        return;
    memset(host, 1, size);
    uint64_t start = now_ns();
    for (int i = 0; i < 1000; i++) {
        call.cuCtxPushCurrent_v2(context);
        call.cuCtxPopCurrent_v2(&popped);
    }
    row("push and pop of a context", "%.2f us", (double)(now_ns() - start) / 1e6);
    start = now_ns();
    for (int i = 0; i < 1000; i++)
        call.cuDevicePrimaryCtxGetState(0, &flags, &active);
    row("cuDevicePrimaryCtxGetState", "%.2f us", (double)(now_ns() - start) / 1e6);
    start = now_ns();
    NEED(cuLaunchHostFunc, CUDA_STREAM_LEGACY, ring, &rang);
    while (!atomic_load(&rang))
        ;
    row("a host function runs after", "%.1f us", (double)(now_ns() - start) / 1e3);
    if (!more.standin_tasks) { /* which ends a process that does so */
        cuda_status inside = CUDA_OK;
        NEED(cuLaunchHostFunc, CUDA_STREAM_LEGACY, call_driver, &inside);
        finish(CUDA_STREAM_LEGACY);
        row("a call of the driver in a host function", "%s", words(inside));
    }
    speed("device to device, 8 B", other, device, 8);
    speed("device to device, 64 KiB", other, device, 65536);
    speed("device to device, 16 MiB", other, device, 16 * MIB);
    speed("device to device, 64 MiB", other, device, size);
    speed("device to pageable, 64 MiB", (uintptr_t)host, device, size);
    speed("pageable to device, 64 MiB", device, (uintptr_t)host, size);
    if (call.cuMemHostRegister_v2(host, size, CUDA_HOST_PORTABLE) == CUDA_OK) {
        speed("device to pinned, 8 B", (uintptr_t)host, device, 8);
        speed("device to pinned, 64 MiB", (uintptr_t)host, device, size);
        speed("pinned to device, 64 MiB", device, (uintptr_t)host, size);
    }
}

/* Visibility ----------------------------------------------------------------------------------------------------- */

/* check(words, n, value, flag, wrong): waits until *flag is value, if there is a flag, and counts other words. */
static const char kernel_text[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry check(.param .u64 p_words, .param .u32 p_n, .param .u32 p_value, .param .u64 p_flag,\n"
    "                      .param .u64 p_wrong)\n"
    "{\n"
    "    .reg .pred %p<4>;\n    .reg .b32 %r<8>;\n    .reg .b64 %rd<4>;\n"
    "    ld.param.u64 %rd1, [p_words];\n    ld.param.u32 %r1, [p_n];\n    ld.param.u32 %r2, [p_value];\n"
    "    ld.param.u64 %rd2, [p_flag];\n    ld.param.u64 %rd3, [p_wrong];\n"
    "    setp.eq.u64 %p1, %rd2, 0;\n    @%p1 bra READ;\n"
    "SPIN:\n"
    "    ld.volatile.global.u32 %r3, [%rd2];\n    setp.ne.u32 %p2, %r3, %r2;\n    @%p2 bra SPIN;\n    membar.sys;\n"
    "READ:\n"
    "    mov.u32 %r4, 0;\n    mov.u32 %r5, 0;\n"
    "LOOP:\n"
    "    setp.ge.u32 %p3, %r4, %r1;\n    @%p3 bra DONE;\n"
    "    ld.volatile.global.u32 %r6, [%rd1];\n    setp.ne.u32 %p2, %r6, %r2;\n    selp.u32 %r7, 1, 0, %p2;\n"
    "    add.u32 %r5, %r5, %r7;\n    add.u64 %rd1, %rd1, 4;\n    add.u32 %r4, %r4, 1;\n    bra LOOP;\n"
    "DONE:\n"
    "    st.volatile.global.u32 [%rd3], %r5;\n    ret;\n"
    "}\n";

/* In memory of both processes. */
struct meeting {
    atomic_uint wanted, written; /* rounds */
};

static struct meeting *meeting;

/* Writes into the other's memory by copies, and says so in host memory when the event has happened. */
static void write_rounds(int line)
{
    struct cuda_ipc_handle name;
    cuda_address at, source;
    hear_or_end(line, &name, sizeof name);
    begin();
    NEED(cuIpcOpenMemHandle_v2, &at, name, CUDA_IPC_PEER_ACCESS);
    NEED(cuMemAlloc_v2, &source, WORDS * 4);
    for (unsigned round = 1; round <= 2 * ROUNDS; round++) {
        fill(source, round);
        while (atomic_load(&meeting->wanted) != round)
            ;
        need("the writer's copy", copy(at, source, WORDS * 4));
        atomic_store(&meeting->written, round);
    }
}

static unsigned launch(void *kernel, cuda_address at, unsigned value, cuda_address flag, cuda_address wrong,
                       cuda_stream stream)
{
    unsigned count = WORDS;
    void *arguments[] = {&at, &count, &value, &flag, &wrong};
    need("cuLaunchKernel", more.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    return value;
}

void visibility(void)
{
    void *module, *kernel;
    struct cuda_ipc_handle name;
    cuda_address memory, wrong, flag = 0;
    cuda_stream stream;
    uint32_t got, later = 0, running = 0;
    meeting = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct peer peer = peer_start(write_rounds);
    begin();
    if (!more.cuModuleLoadData || !more.cuModuleGetFunction || !more.cuLaunchKernel) {
        row("kernels", "this driver runs none: left out");
        peer_kill(peer);
        return;
    }
    need("cuModuleLoadData", more.cuModuleLoadData(&module, kernel_text));
    need("cuModuleGetFunction", more.cuModuleGetFunction(&kernel, module, "check"));
    NEED(cuMemAlloc_v2, &memory, 4 * MIB);
    NEED(cuMemAlloc_v2, &wrong, 4096);
    NEED(cuStreamCreateWithPriority, &stream, CUDA_STREAM_NON_BLOCKING, 0);
    NEED(cuIpcGetMemHandle, &name, memory);
    NEED(cuMemHostRegister_v2, meeting, 4096, CUDA_HOST_MAPPED);
    NEED(cuMemHostGetDevicePointer_v2, &flag, meeting, 0);
    flag += offsetof(struct meeting, written);
    say(peer.line, &name, sizeof name);
    for (unsigned round = 1; round <= 2 * ROUNDS; round++) {
        bool runs = round > ROUNDS; /* the kernel waits for the flag itself */
        if (runs)
            launch(kernel, memory, round, flag, wrong, stream);
        atomic_store(&meeting->wanted, round);
        while (!runs && atomic_load(&meeting->written) != round)
            ;
        if (!runs)
            launch(kernel, memory, round, 0, wrong, stream);
        finish(stream);
        need("the copy of the result", copy((uintptr_t)&got, wrong, 4));
        *(runs ? &running : &later) += got;
    }
    row("a kernel launched after another process's copy: wrong words", "%u of %d", later, ROUNDS * WORDS);
    row("a kernel that waits for its flag meanwhile: wrong words", "%u of %d", running, ROUNDS * WORDS);
    peer_kill(peer);
}
