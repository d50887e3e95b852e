/* Asks a driver of devices, without the library, what it does where its manual is silent, and prints one table: which
 * memory can be exported, what is left when a process dies, when bytes become visible, what is refused, what it costs.
 *
 *     gcc -std=c11 -D_GNU_SOURCE -O2 -I acp_mpi/engine tests/device/probe*.c -o probe -ldl -pthread && ./probe
 *
 * Each question is asked in a process of its own: one that hangs or crashes costs its row only. */
#include "probe.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct probe_calls call;
struct probe_more more;

/* The table ------------------------------------------------------------------------------------------------------ */

void row(const char *question, const char *format, ...)
{
    char answer[300];
    va_list list;
    va_start(list, format);
    vsnprintf(answer, sizeof answer, format, list);
    va_end(list);
    printf("%-64s %s\n", question, answer);
    fflush(stdout);
}

const char *words(cuda_status status)
{
    const char *name = NULL;
    if (status == CUDA_OK)
        return "yes";
    return call.cuGetErrorName && call.cuGetErrorName(status, &name) == CUDA_OK && name ? name : "an unknown error";
}

void need(const char *step, cuda_status status)
{
    if (status == CUDA_OK)
        return;
    row(step, "%s: the rest of this question is left out", words(status));
    exit(0);
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Processes ------------------------------------------------------------------------------------------------------ */

struct peer peer_start(void (*play)(int line))
{
    int lines[2];
    struct peer peer;
    fflush(stdout);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, lines) || (peer.process = fork()) < 0)
        exit(1);
    if (!peer.process) {
        close(lines[0]);
        alarm(SECONDS);
        play(lines[1]);
        exit(0);
    }
    close(lines[1]);
    peer.line = lines[0];
    return peer;
}

void say(int line, const void *bytes, size_t size)
{
    if (write(line, bytes, size) != (ssize_t)size)
        exit(0);
}

bool hear(int line, void *bytes, size_t size)
{
    return recv(line, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

void hear_or_end(int line, void *bytes, size_t size)
{
    if (!hear(line, bytes, size))
        exit(0); /* the other side has printed why */
}

void peer_kill(struct peer peer)
{
    kill(peer.process, SIGKILL);
    waitpid(peer.process, NULL, 0);
}

/* Answers a question in a process of its own. */
static void ask(const char *topic, void (*question)(void))
{
    int status;
    printf("\n-- %s\n", topic);
    fflush(stdout);
    pid_t process = fork();
    if (!process) {
        alarm(SECONDS);
        question();
        exit(0);
    }
    waitpid(process, &status, 0);
    if (WIFSIGNALED(status))
        row("this question ended by", "%s",
            WTERMSIG(status) == SIGALRM ? "its time: it hung" : strsignal(WTERMSIG(status)));
}

/* The driver ----------------------------------------------------------------------------------------------------- */

cuda_context begin(void)
{
    cuda_context context;
    NEED(cuInit, 0);
    NEED(cuDevicePrimaryCtxRetain, &context, 0);
    NEED(cuCtxPushCurrent_v2, context);
    return context;
}

void finish(cuda_stream stream)
{
    cuda_event event;
    NEED(cuEventCreate, &event, CUDA_EVENT_NO_TIMING);
    NEED(cuEventRecord, event, stream);
    NEED(cuEventSynchronize, event);
    call.cuEventDestroy_v2(event);
}

cuda_status copy(cuda_address to, cuda_address from, size_t size)
{
    cuda_event event;
    cuda_status status = call.cuMemcpyAsync(to, from, size, CUDA_STREAM_LEGACY);
    if (status == CUDA_OK)
        status = call.cuEventCreate(&event, CUDA_EVENT_NO_TIMING);
    if (status == CUDA_OK)
        status = call.cuEventRecord(event, CUDA_STREAM_LEGACY);
    return status == CUDA_OK ? call.cuEventSynchronize(event) : status;
}

void fill(cuda_address to, uint32_t value)
{
    uint32_t *all = malloc(WORDS * sizeof *all);
    for (int i = 0; all && i < WORDS; i++)
        all[i] = value;
    need("a copy to the device", all ? copy(to, (uintptr_t)all, WORDS * sizeof *all) : CUDA_NO_MEMORY);
    free(all);
}

const char *check(cuda_address from, uint32_t value)
{
    static uint32_t all[WORDS];
    memset(all, 0, sizeof all);
    cuda_status status = copy((uintptr_t)all, from, sizeof all);
    for (int i = 0; status == CUDA_OK && i < WORDS; i++)
        if (all[i] != value)
            return "wrong bytes";
    return status == CUDA_OK ? "right" : words(status);
}

void speed(const char *what, cuda_address to, cuda_address from, size_t size)
{
    cuda_event event;
    uint64_t best = UINT64_MAX, begun = now_ns();
    NEED(cuEventCreate, &event, CUDA_EVENT_NO_TIMING);
    for (int i = 0; i < 200 && now_ns() - begun < 300000000; i++) {
        uint64_t start = now_ns();
        NEED(cuMemcpyAsync, to, from, size, CUDA_STREAM_LEGACY);
        NEED(cuEventRecord, event, CUDA_STREAM_LEGACY);
        while (call.cuEventQuery(event) == CUDA_NOT_READY)
            ;
        uint64_t took = now_ns() - start;
        best = took < best ? took : best;
    }
    row(what, "%.1f us, %.2f GB/s", (double)best / 1e3, (double)size / (double)best);
}

cuda_address mapped(const struct cuda_memory_kind *kind, cuda_memory *memory, size_t *size)
{
    cuda_address address;
    NEED(cuMemGetAllocationGranularity, size, kind, 0);
    NEED(cuMemCreate, memory, *size, kind, 0);
    NEED(cuMemAddressReserve, &address, *size, 0, 0, 0);
    NEED(cuMemMap, address, *size, 0, *memory, 0);
    NEED(cuMemSetAccess, address, *size, &everything, 1);
    return address;
}

/* The machine ---------------------------------------------------------------------------------------------------- */

static void machine(void)
{
    int version = 0, count = 0, value;
    char name[80] = "";
    struct cuda_uuid uuid;
    Dl_info info;
    uint64_t start = now_ns();
    need("cuInit", call.cuInit(0));
    row("cuInit takes", "%.1f ms", (double)(now_ns() - start) / 1e6);
    call.cuDriverGetVersion(&version);
    call.cuDeviceGetCount(&count);
    row("library", "%s", dladdr((void *)(uintptr_t)call.cuInit, &info) ? info.dli_fname : "?");
    row("version of the interface", "%d", version);
    row("devices", "%d", count);
    for (int i = 0; i < count; i++) {
        call.cuDeviceGetName(name, sizeof name, i);
        call.cuDeviceGetUuid_v2(&uuid, i);
        printf("  %d  %s  ", i, name);
        for (int b = 0; b < 16; b++)
            printf("%02x", uuid.bytes[b]);
        printf("\n");
        static const struct { int attribute; const char *name; } asked[] = {
            {CUDA_HAS_UNIFIED_ADDRESSES, "  one address space with the host"},
            {CUDA_HAS_MAPPED_MEMORY, "  mapped memory"},
            {CUDA_HAS_DESCRIPTORS, "  descriptors of memory"},
        };
        for (size_t a = 0; a < sizeof asked / sizeof *asked; a++)
            row(asked[a].name, "%s", call.cuDeviceGetAttribute(&value, asked[a].attribute, i) != CUDA_OK ? "?"
                                     : value                                                           ? "yes"
                                                                                                       : "no");
        for (int j = 0; j < count; j++)
            if (j != i && call.cuDeviceCanAccessPeer(&value, i, j) == CUDA_OK)
                printf("  device %d reaches device %d: %s\n", i, j, value ? "yes" : "no");
    }
}

static void contexts(void)
{
    size_t before, after, total;
    unsigned flags;
    int active = 0;
    NEED(cuInit, 0);
    call.cuDevicePrimaryCtxGetState(0, &flags, &active);
    row("a context is active after cuInit", "%s", active ? "yes" : "no");
    uint64_t start = now_ns();
    begin();
    row("the first context takes", "%.1f ms", (double)(now_ns() - start) / 1e6);
    call.cuMemGetInfo_v2(&before, &total);
    row("memory of the device, free", "%zu MiB, %zu MiB", total / MIB, before / MIB);
    pid_t self = fork();
    if (!self) { /* a child of fork has no driver */
        execl("/proc/self/exe", "probe", "--hold", (char *)NULL);
        _exit(1);
    }
    for (int i = 0; i < 100; i++) { /* until the other process has a context */
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        call.cuMemGetInfo_v2(&after, &total);
        if (after + MIB < before)
            break;
    }
    nanosleep(&(struct timespec){0, 500000000}, NULL);
    call.cuMemGetInfo_v2(&after, &total);
    row("a context of another process takes", "%.1f MiB of the device", ((double)before - (double)after) / MIB);
    kill(self, SIGKILL);
    waitpid(self, NULL, 0);
}

int main(int count, char **list)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    bool whole = library != NULL;
    if (!library) {
        printf("probe: %s\n", dlerror());
        return 0;
    }
#define LOAD(name, arguments)                                                                                          \
    if (!(*(void **)&call.name = dlsym(library, #name))) {                                                             \
        row("missing in this driver", #name);                                                                          \
        whole = false;                                                                                                 \
    }
    CUDA_CALLS(LOAD)
    *(void **)&more.cuMemAllocAsync = dlsym(library, "cuMemAllocAsync");
    *(void **)&more.cuMemAllocManaged = dlsym(library, "cuMemAllocManaged");
    *(void **)&more.cuModuleLoadData = dlsym(library, "cuModuleLoadData");
    *(void **)&more.cuModuleGetFunction = dlsym(library, "cuModuleGetFunction");
    *(void **)&more.cuLaunchKernel = dlsym(library, "cuLaunchKernel");
    *(void **)&more.standin_tasks = dlsym(library, "standin_tasks");
    if (!whole)
        return 1;
    if (count > 1 && strcmp(list[1], "--hold") == 0) {
        begin();
        pause();
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    ask("the machine", machine);
    ask("contexts", contexts);
    ask("what needs a current context", without_context);
    ask("what can be exported", exports);
    ask("what others import, and what is left of it", imports);
    ask("memory that is freed while another process has it", freed_while_imported);
    ask("what blocks", blocking);
    ask("what it costs", times);
    ask("when bytes are visible", visibility);
    return 0;
}
