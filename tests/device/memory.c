/* Device memory: addresses that the processor cannot reach, and the bytes behind them in a memory file. */
#include "inside.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x6e692d646e617473u
#define DYING_MS 300
#define EXITING 4 /* of the kernel's flags of a process */

/* Addresses without access, kept for ever: with FAKE_FRESH no address comes twice, and otherwise as with the driver. */
struct reservation {
    cuda_address start;
    size_t size;
    bool taken;
    struct reservation *next;
};
static struct reservation *reservations;

static size_t pages(size_t size)
{
    return (size + SMALL_PAGE - 1) / SMALL_PAGE * SMALL_PAGE;
}

/* Addresses, with an alignment of at least a page; 0: none are left. */
cuda_address memory_reserve(size_t size, size_t alignment)
{
    size = pages(size);
    for (struct reservation *each = reservations; each && !standin.fresh; each = each->next)
        if (!each->taken && each->size == size && each->start % alignment == 0) {
            each->taken = true;
            return each->start;
        }
    void *space = mmap(NULL, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return 0;
    struct reservation *new = standin_new(sizeof *new);
    *new = (struct reservation){
        .start = ((cuda_address)(uintptr_t)space + alignment - 1) / alignment * alignment,
        .size = size,
        .taken = true,
        .next = reservations,
    };
    reservations = new;
    return new->start;
}

void memory_unreserve(cuda_address start, size_t size)
{
    for (struct reservation *each = reservations; each; each = each->next)
        if (each->start == start && each->size == pages(size))
            each->taken = false;
}

static struct reservation *reservation_of(cuda_address address)
{
    struct reservation *each = reservations;
    while (each && !(address >= each->start && address - each->start < each->size))
        each = each->next;
    return each;
}

bool memory_reserved(cuda_address start, size_t size, bool whole)
{
    struct reservation *found = reservation_of(start);
    if (!found || !found->taken || size > found->size - (size_t)(start - found->start))
        return false;
    return !whole || (start == found->start && size == found->size);
}

/* Blocks --------------------------------------------------------------------------------------------------------- */

static struct block *block_map(int fd, size_t size)
{
    unsigned char *bytes = mmap(NULL, pages(size) + SMALL_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return NULL;
    struct block *block = standin_new(sizeof *block);
    *block = (struct block){
        .fd = fd,
        .size = size,
        .bytes = bytes,
        .shared = (struct shared *)(void *)(bytes + pages(size)),
        .number = ++standin.numbers,
        .next = standin.blocks,
    };
    standin.blocks = block;
    return block;
}

static size_t used(int device)
{
    size_t sum = 0;
    for (struct block *block = standin.blocks; block; block = block->next)
        if (block->own && block->device == device)
            sum += block->size;
    return sum;
}

/* NULL: the device has not that much. */
struct block *memory_block_new(int device, size_t size, int handle_types)
{
    if (size > standin.memory - used(device))
        return NULL;
    int fd = memfd_create("stand-in", MFD_CLOEXEC);
    struct block *block = fd < 0 || ftruncate(fd, (off_t)(pages(size) + SMALL_PAGE)) ? NULL : block_map(fd, size);
    if (!block)
        standin_complain("host memory or descriptors are out: %m");
    block->own = true;
    block->device = device;
    block->handle_types = handle_types;
    block->shared->magic = MAGIC;
    block->shared->size = size;
    block->shared->owner = getpid();
    block->shared->device = standin.visible[device];
    if (getrandom(&block->shared->serial, sizeof block->shared->serial, 0) < 0)
        standin_complain("no random numbers: %m");
    return block;
}

struct block *memory_block_open(int fd)
{
    struct stat file;
    struct block *block = NULL;
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size > SMALL_PAGE)
        block = block_map(fd, (size_t)file.st_size - SMALL_PAGE);
    if (!block)
        return NULL;
    block->device = -1;
    for (int device = 0; device < standin.devices; device++)
        if (standin.visible[device] == block->shared->device)
            block->device = device;
    if (block->shared->magic != MAGIC || pages(block->shared->size) != block->size || block->device < 0) {
        block->fd = -1; /* the caller's again */
        memory_block_leave(block);
        return NULL;
    }
    block->size = block->shared->size;
    return block;
}

/* Ends a block that nothing names, maps or copies. */
void memory_block_leave(struct block *block)
{
    if (block->handles || block->users)
        return;
    struct block **at = &standin.blocks;
    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
    munmap(block->bytes, pages(block->size) + SMALL_PAGE);
    if (block->fd >= 0)
        close(block->fd);
    free(block);
}

/* Ranges --------------------------------------------------------------------------------------------------------- */

struct range *memory_find(cuda_address address)
{
    struct range *range = standin.ranges;
    while (range && !(address >= range->start && address - range->start < range->size))
        range = range->next;
    return range;
}

struct range *memory_range_new(int kind, cuda_address start, size_t size, struct block *block)
{
    struct range *range = standin_new(sizeof *range);
    *range = (struct range){.kind = kind, .start = start, .size = size, .block = block, .next = standin.ranges};
    range->buffer = ++standin.numbers;
    if (block)
        block->users++;
    return standin.ranges = range;
}

void memory_range_end(struct range *range)
{
    struct range **at = &standin.ranges;
    while (*at != range)
        at = &(*at)->next;
    *at = range->next;
    if (range->block) {
        range->block->users--;
        memory_block_leave(range->block);
    }
    free(range);
}

/* Whether SIGKILL waits for a process; `key` says among which signals. */
static bool is_killed(pid_t process, const char *key)
{
    char name[64], text[4096] = "";
    snprintf(name, sizeof name, "/proc/%d/status", (int)process);
    FILE *file = fopen(name, "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    char *at = strstr(text, key);
    return at && strtoull(at + strlen(key), NULL, 16) >> (SIGKILL - 1) & 1;
}

/* Whether a process is at its end: it is gone, or a zombie, or SIGKILL waits for it, or the kernel takes it apart. */
static bool ends(pid_t process)
{
    char name[64], state = 'X';
    unsigned flags = 0;
    snprintf(name, sizeof name, "/proc/%d/stat", (int)process);
    FILE *file = fopen(name, "r");
    if (file) {
        if (fscanf(file, "%*d (%*[^)]) %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
            state = 'X';
        fclose(file);
    }
    return state == 'X' || state == 'Z' || flags & EXITING || is_killed(process, "SigPnd:") ||
           is_killed(process, "ShdPnd:");
}

/* As above, or it is so soon: nothing shows a signal that has been taken and not yet obeyed. */
static bool dies(pid_t process)
{
    for (int ms = 0; ms < DYING_MS; ms++) {
        if (ends(process))
            return true;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return false;
}

/* Ends an allocation, an import or a registration. Other processes must have closed an allocation before. */
void memory_free(struct range *range)
{
    if (!range->block) {
        memory_range_end(range);
        return;
    }
    if (range->kind == RANGE_ALLOCATED) {
        range->block->shared->freed = 1;
        for (int i = 0; i < IMPORTERS; i++) {
            int process = range->block->shared->importers[i];
            if (process && !dies(process))
                standin_complain("%#llx is freed, and process %d still has it open", range->start, process);
        }
    } else
        for (int i = 0; i < IMPORTERS; i++) {
            int process = getpid();
            atomic_compare_exchange_strong(&range->block->shared->importers[i], &process, 0);
        }
    memory_unreserve(range->start, range->size);
    memory_range_end(range);
}

cuda_status cuMemAlloc_v2(cuda_address *address, size_t size)
{
    struct cuda_context *context;
    ENTER(&context);
    REFUSE_IF(!size, CUDA_BAD_VALUE);
    struct block *block = memory_block_new(context->device, size, 0);
    REFUSE_IF(!block, CUDA_NO_MEMORY);
    struct range *range = memory_range_new(RANGE_ALLOCATED, memory_reserve(size, SMALL_PAGE), size, block);
    range->context = context;
    range->access = CUDA_READ_WRITE;
    *address = range->start;
    LEAVE(CUDA_OK);
}

cuda_status cuMemFree_v2(cuda_address address)
{
    struct cuda_context *context;
    ENTER(&context);
    struct range *range = memory_find(address);
    REFUSE_IF(!range || range->kind != RANGE_ALLOCATED || range->start != address, CUDA_BAD_VALUE);
    memory_free(range);
    LEAVE(CUDA_OK);
}

cuda_status cuMemGetInfo_v2(size_t *left, size_t *total)
{
    struct cuda_context *context;
    ENTER(&context);
    *total = standin.memory;
    *left = standin.memory - used(context->device);
    LEAVE(CUDA_OK);
}

/* What is known of addresses ------------------------------------------------------------------------------------- */

cuda_status cuMemGetAddressRange_v2(cuda_address *start, size_t *size, cuda_address address)
{
    struct cuda_context *context;
    ENTER(&context);
    struct range *range = memory_find(address);
    REFUSE_IF(!range || range->kind == RANGE_HOST, CUDA_NOT_FOUND);
    if (start)
        *start = range->start;
    if (size)
        *size = range->size;
    LEAVE(CUDA_OK);
}

/* Booleans are one byte. */
static void attribute_get(const struct range *range, cuda_pointer_attribute attribute, void *value)
{
    bool device = range && range->kind != RANGE_HOST;
    switch (attribute) {
    case CUDA_POINTER_CONTEXT:
        *(cuda_context *)value = range ? range->context : NULL;
        break;
    case CUDA_POINTER_TYPE:
        *(unsigned *)value = !range ? 0 : device ? CUDA_DEVICE_MEMORY : CUDA_HOST_MEMORY;
        break;
    case CUDA_POINTER_BUFFER:
        *(unsigned long long *)value = range ? range->buffer : 0;
        break;
    case CUDA_POINTER_MANAGED:
        *(bool *)value = false;
        break;
    case CUDA_POINTER_DEVICE:
        *(int *)value = device ? range->block->device : -2;
        break;
    case CUDA_POINTER_IPC:
        *(bool *)value = range && range->kind == RANGE_ALLOCATED && !standin.pool && !standin.no_ipc;
        break;
    case CUDA_POINTER_START:
        *(cuda_address *)value = range ? range->start : 0;
        break;
    case CUDA_POINTER_SIZE:
        *(size_t *)value = range ? range->size : 0;
        break;
    case CUDA_POINTER_HANDLES:
        *(unsigned *)value = device ? (unsigned)range->block->handle_types : 0;
        break;
    default:
        standin_complain("it does not know the attribute %d of an address", attribute);
    }
}

/* Needs no context, and does not fail for addresses that it does not know. */
cuda_status cuPointerGetAttributes(unsigned count, cuda_pointer_attribute *attributes, void **values,
                                   cuda_address address)
{
    ENTER(NULL);
    for (unsigned i = 0; i < count; i++)
        attribute_get(memory_find(address), attributes[i], values[i]);
    LEAVE(CUDA_OK);
}

/* Copies --------------------------------------------------------------------------------------------------------- */

cuda_status memory_check(cuda_address address, size_t size, bool write, uint64_t *buffer)
{
    struct range *range = memory_find(address);
    *buffer = range && range->block ? range->buffer : 0;
    if (!range && size) {
        struct reservation *reservation = reservation_of(address);
        if (reservation && !reservation->taken)
            standin_complain("a copy names %#llx, which is device memory that has been freed", address);
        return reservation ? CUDA_BAD_VALUE : CUDA_OK;
    }
    while (size && range) {
        size_t here = range->size - (size_t)(address - range->start);
        if (range->block && !(range->access & (write ? CUDA_READ_WRITE - CUDA_READ : CUDA_READ)))
            return CUDA_BAD_VALUE;
        if (size <= here || !range->block)
            return CUDA_OK;
        if (range->kind != RANGE_MAPPED)
            return CUDA_BAD_VALUE;
        address += here;
        size -= here;
        range = memory_find(address);
    }
    return size ? CUDA_BAD_VALUE : CUDA_OK;
}

/* One side of a copy that runs: its bytes now, and how many of them lie together. */
static unsigned char *side(cuda_address address, uint64_t buffer, struct block **block, size_t *size)
{
    struct range *range = memory_find(address);
    *block = NULL;
    if (!buffer)
        return (unsigned char *)(uintptr_t)address;
    if (!range || !range->block || (range->kind != RANGE_MAPPED && range->buffer != buffer))
        standin_complain("the memory at %#llx was freed before a copy had run that names it", address);
    if (range->kind == RANGE_IMPORTED && range->block->shared->freed)
        standin_complain("a copy uses %#llx, which process %d has freed", address, range->block->shared->owner);
    size_t at = (size_t)(address - range->start);
    if (*size > range->size - at)
        *size = range->size - at;
    *block = range->block;
    return range->block->bytes + at;
}

/* A word is stored once, as devices do: the library's memmove of 8 bytes stores it twice. */
static void bytes_copy(unsigned char *to, const unsigned char *from, size_t size)
{
    if (size == sizeof(uint64_t) && !(((uintptr_t)to | (uintptr_t)from) % sizeof(uint64_t)))
        __atomic_store_n((uint64_t *)(void *)to, *(const uint64_t *)(const void *)from, __ATOMIC_RELEASE);
    else
        memmove(to, from, size);
}

void memory_copy(struct task *task)
{
    for (size_t done = 0, size; done < task->size; done += size) {
        struct block *to_block, *from_block;
        size = task->size - done;
        unsigned char *from = side(task->from + done, task->from_buffer, &from_block, &size);
        unsigned char *to = side(task->to + done, task->to_buffer, &to_block, &size);
        struct block *blocks[] = {from_block, to_block};
        for (int i = 0; i < 2; i++)
            if (blocks[i])
                blocks[i]->users++;
        pthread_mutex_unlock(&standin.lock);
        bytes_copy(to, from, size);
        pthread_mutex_lock(&standin.lock);
        for (int i = 0; i < 2; i++)
            if (blocks[i]) {
                blocks[i]->users--;
                memory_block_leave(blocks[i]);
            }
    }
}

unsigned char *standin_bytes(cuda_address address)
{
    pthread_mutex_lock(&standin.lock);
    struct range *range = memory_find(address);
    unsigned char *bytes = range && range->block ? range->block->bytes + (address - range->start) : NULL;
    pthread_mutex_unlock(&standin.lock);
    return bytes;
}

unsigned standin_reserved(void)
{
    pthread_mutex_lock(&standin.lock);
    unsigned count = 0;
    for (struct reservation *each = reservations; each; each = each->next)
        count += each->taken;
    pthread_mutex_unlock(&standin.lock);
    return count;
}

/* Host memory ---------------------------------------------------------------------------------------------------- */

cuda_status cuMemHostRegister_v2(void *start, size_t size, unsigned flags)
{
    struct cuda_context *context;
    ENTER(&context);
    cuda_address first = (cuda_address)(uintptr_t)start;
    REFUSE_IF(!start || !size || flags & ~(unsigned)(CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED), CUDA_BAD_VALUE);
    for (struct range *range = standin.ranges; range; range = range->next)
        REFUSE_IF(first < range->start + range->size && range->start < first + size, CUDA_ALREADY_REGISTERED);
    memory_range_new(RANGE_HOST, first, size, NULL)->context = context;
    LEAVE(CUDA_OK);
}

cuda_status cuMemHostUnregister(void *start)
{
    struct cuda_context *context;
    ENTER(&context);
    struct range *range = memory_find((cuda_address)(uintptr_t)start);
    REFUSE_IF(!range || range->kind != RANGE_HOST || range->start != (cuda_address)(uintptr_t)start,
              CUDA_NOT_REGISTERED);
    memory_range_end(range);
    LEAVE(CUDA_OK);
}

cuda_status cuMemHostGetDevicePointer_v2(cuda_address *address, void *start, unsigned flags)
{
    struct cuda_context *context;
    ENTER(&context);
    struct range *range = memory_find((cuda_address)(uintptr_t)start);
    REFUSE_IF(flags || !range || range->kind != RANGE_HOST, CUDA_BAD_VALUE);
    *address = (cuda_address)(uintptr_t)start;
    LEAVE(CUDA_OK);
}
